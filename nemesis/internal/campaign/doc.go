// Package campaign runs workers on a deployment while faults are
// injected by a seeded plan, and judges what comes of it.
package campaign

// Package scope takes locks for operations, and finds in a context which locks
// it runs under. Package lockmw and the adapters stand on it.
package scope

package store

import "strings"

// limitPrefix begins the names of limits. No caller can lock a name that begins so: see
// renewer.CheckName.
const limitPrefix = "\x00lockbeat-limit:"

// LimitName is what a [Store] calls the limit that its users call name. A limit and a lock of one
// name are two things, wherever names are told apart.
//
// A limit is a name that several owners may have at once. Each has a slot: a lease with an owner
// token, a TTL and a fencing token of its own, above those of all slots granted before. Whatever is
// said of a lease here is true of a slot, and what one owner does changes no other's.
//
//   - A claim is granted while fewer than its [Claim.Limit] have the name, those whose turn has
//     come counted in. So a lower limit ends no slot, and owners who disagree go by their own.
//   - A slot that is released, or that has lapsed, is kept for the first place in line, if there is
//     one; there is one line for all slots. A claim that finds room for more wakes as many as fit.
//   - No tokens are reserved.
//
// A Store that has no limits answers with an error that is [ErrConfig] and [ErrRejected], and says
// why.
func LimitName(name string) string { return limitPrefix + name }

// CutLimit is the opposite of [LimitName]. limit is false for any other name, which it returns as
// it is.
func CutLimit(name string) (plain string, limit bool) {
	return strings.CutPrefix(name, limitPrefix)
}

// Package terms lets package once have the acquire of a lock depend on its record and begin a term,
// and tell a name of several from others. That is none of the affair of lockmw's users.
package terms

import "github.com/lockbeat/lockbeat/renewer"

// Option makes a lockmw.Option of what renewer.BeginTerm returns. Package lockmw sets it when it is
// initialised.
var Option func(begin renewer.Option) any

// IsSeveral reports whether a name is one that lockmw.Keys has made of several. Package lockmw sets
// it when it is initialised.
var IsSeveral func(name string) bool

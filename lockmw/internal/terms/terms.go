// Package terms lets package once have the acquire of a lock depend on its record and begin a term.
// It is an option of package lockmw that is none of its users' affair.
package terms

import "github.com/lockbeat/lockbeat/renewer"

// Option makes a lockmw.Option of what renewer.BeginTerm returns. Package lockmw sets it when it is
// initialised.
var Option func(begin renewer.Option) any

package lockmw

import (
	"github.com/lockbeat/lockbeat/lockmw/internal/terms"
	"github.com/lockbeat/lockbeat/renewer"
)

func init() { //nolint:gochecknoinits // an import the other way would be a cycle
	terms.Option = func(begin renewer.Option) any {
		return Option(func(s settings) settings { s.term = begin; return s })
	}
	terms.IsSeveral = func(name string) bool { return split(name) != nil }
}

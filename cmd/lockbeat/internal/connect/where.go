package connect

import (
	"cmp"
	"context"
	"fmt"

	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// Where says in one line, for people, which Redis the variables lead to and by
// which prefix. It has no password in it.
func Where(ctx context.Context) (string, error) {
	quiet, _ := ctx.Value(sourceKey{}).(Source)
	quiet.Warn = nil // Open warns
	s, err := read(With(ctx, quiet))
	if err != nil {
		return "", err
	}
	where := "Redis"
	if len(s.Option.InitAddress) > 0 {
		where = s.Option.InitAddress[0]
	}
	if more := len(s.Option.InitAddress) - 1; more > 0 {
		where += fmt.Sprintf(" and %d more", more)
	}
	if s.Option.Sentinel.MasterSet != "" {
		where = s.Option.Sentinel.MasterSet + " by the Sentinel " + where
	}
	if s.Option.SelectDB != 0 {
		where += fmt.Sprintf(", database %d", s.Option.SelectDB)
	}
	return where + ", prefix " + cmp.Or(s.Prefix, redisstore.DefaultPrefix), nil
}

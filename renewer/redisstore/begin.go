package redisstore

import (
	_ "embed"
	"slices"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer"
)

// A claim with a term is granted, on the condition of its record, and its term begun by one script,
// which asks for one lease.

var (
	//go:embed lua/begin.lua
	beginText string

	beginScript = newScript(include(include(beginText, "acquire.lua", acquireText),
		"look.lua", lookText))
)

// beginCommand calls the script with the keys and arguments of acquire.lua.
func (c *codec) beginCommand(
	whole bool, term *renewer.Term, keys, args []string,
) rueidis.Completed {
	keys = append(slices.Clip(keys), keys[0]+recordSuffix)
	args = append(args, decimal(term.TTL.Milliseconds()), term.Data, decimal(term.After.Fence),
		decimal(term.After.Seq))
	return beginScript.command(c.builder(), whole, keys, args...)
}

// readBegun reads what became of one claim with a term.
func (c *codec) readBegun(reply rueidis.RedisMessage, claim *renewer.Claim) (g renewer.Grant) {
	if reply.Error() != nil {
		return c.readOne(reply, claim)
	}
	parts, err := reply.ToArray()
	if err != nil || len(parts) < 1 || len(parts) > 2 {
		return renewer.Grant{Err: unreadable("acquire")}
	}
	if changed := parts[0].IsNil(); changed {
		g.Status = renewer.StatusChanged
	} else if g = c.readOne(parts[0], claim); len(parts) == 1 {
		return g
	}
	if len(parts) == 2 && (g.Status == renewer.StatusHeld || g.Status == renewer.StatusChanged) {
		if seen, ok := readSeen(parts[1], 0); ok {
			g.Seen = &seen
			return g
		}
	}
	return renewer.Grant{Err: unreadable("acquire")}
}

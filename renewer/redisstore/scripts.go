package redisstore

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1; nothing is secured by it
	_ "embed"
	"encoding/hex"
	"strings"

	"github.com/redis/rueidis"
)

// One file per operation; its head says what goes in and what comes out.
var (
	//go:embed lua/tell.lua
	tellText string
	//go:embed lua/line.lua
	lineText string
	//go:embed lua/grant.lua
	grantText string
	//go:embed lua/lost.lua
	lostText string
	//go:embed lua/passon.lua
	passOnText string
	//go:embed lua/rule.lua
	ruleText string
	//go:embed lua/acquire.lua
	acquireText string
	//go:embed lua/propose.lua
	proposeText string
	//go:embed lua/order.lua
	orderText string
	//go:embed lua/begin.lua
	beginText string
	//go:embed lua/renew.lua
	renewText string
	//go:embed lua/release.lua
	releaseText string
	//go:embed lua/probe.lua
	probeText string
	//go:embed lua/lives.lua
	livesText string
	//go:embed lua/slots.lua
	slotsText string
	//go:embed lua/slots_claim.lua
	slotsClaimText string
	//go:embed lua/slots_acquire.lua
	slotsAcquireText string
	//go:embed lua/slots_renew.lua
	slotsRenewText string
	//go:embed lua/slots_release.lua
	slotsReleaseText string
	//go:embed lua/callers.lua
	callersScriptText string
	//go:embed lua/slots_lost.lua
	slotsLostText string
	//go:embed lua/told.lua
	toldText string

	acquireScript = newScript(acquireText)
	proposeScript = newScript(proposeText)
	beginScript   = newScript(beginText)
	renewScript   = newScript(renewText)
	releaseScript = newScript(releaseText)
	probeScript   = newScript(probeText)

	slotsAcquireScript = newScript(slotsAcquireText)
	slotsRenewScript   = newScript(slotsRenewText)
	slotsReleaseScript = newScript(slotsReleaseText)
)

// script is a Lua script and the name by which a server that has seen it knows it.
type script struct{ text, sha string }

// newScript makes a script of a file, with the files that it includes.
func newScript(text string) script {
	text = include(text, "slots_claim.lua", slotsClaimText)
	text = include(text, "order.lua", orderText)
	text = include(text, "rule.lua", ruleText)
	text = include(text, "grant.lua", grantText)
	text = include(text, "line.lua", lineText)
	text = include(text, "tell.lua", tellText)
	text = include(text, "lost.lua", lostText)
	text = include(text, "passon.lua", passOnText)
	text = include(text, "slots.lua", slotsText)
	text = include(text, "slots_lost.lua", slotsLostText)
	text = include(text, "told.lua", toldText)
	text = include(text, "callers.lua", callersScriptText)
	text = include(text, "lives.lua", livesText)
	sum := sha1.Sum([]byte(text)) //nolint:gosec // as above
	return script{text: text, sha: hex.EncodeToString(sum[:])}
}

// include puts the text of another file where a script says so.
func include(text, file, other string) string {
	return strings.Replace(text, "-- include "+file+"\n", other, 1)
}

// command calls the script by name (EVALSHA), or else by its whole
// text (EVAL), which teaches it to the server.
//
// rueidis takes a command back once it is answered, so that each try needs a new one.
func (s script) command(
	b rueidis.Builder, whole bool, keys []string, args ...string,
) rueidis.Completed {
	n := int64(len(keys))
	if whole {
		return b.Eval().Script(s.text).Numkeys(n).Key(keys...).Arg(args...).Build()
	}
	return b.Evalsha().Sha1(s.sha).Numkeys(n).Key(keys...).Arg(args...).Build()
}

// called is how command calls the script: by which command, and by which name.
func (s script) called(whole bool) (command, name string) {
	if whole {
		return "EVAL", s.text
	}
	return "EVALSHA", s.sha
}

// The modes of tell.lua, but for "": a single server that lets
// waiters stand in line, and a cluster.
const (
	modeLine  = "line"
	modeShard = "shard"
)

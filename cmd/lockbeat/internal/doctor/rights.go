package doctor

import (
	"context"
	"fmt"
	"strings"

	"github.com/redis/rueidis"
)

// grant is a list of rights, as docs/redis.md has it, and what they are for.
type grant struct {
	what, rights string
	// lacking is how bad it is to be without, and without what happens then.
	lacking status
	without string
}

// grants are those that a user may have. A test holds them against the docs.
func grants(cluster bool) []grant {
	lock := "+evalsha +eval +get +mget +set +del +pttl +pexpire +time " +
		"+publish +subscribe"
	toBreak := "+evalsha +eval +get +set +del +pttl +publish +zpopmin"
	if cluster {
		lock = "+evalsha +eval +get +mget +set +del +pttl +pexpire +time " +
			"+spublish +ssubscribe +cluster|slots +cluster|shards"
		toBreak = strings.Replace(toBreak, "+publish", "+spublish", 1)
	}
	return []grant{
		{"to lock", lock, failure, "nothing can be locked"},
		{
			"lines of waiters", "+zadd +zrem +zpopmin +zrange +zscore +exists",
			warning, "each release wakes all who wait",
		},
		{
			"limits",
			"+zadd +zrem +zcard +zcount +zrange +zscore +hset +hget +hdel +hexists +exists",
			ok, needless,
		},
		{
			"lines of tasks",
			"+zadd +zrem +zrange +zrank +zcard +zscore +hset +hdel +hgetall +exists",
			ok, needless,
		},
		{"to look", "+scan +getrange +pttl +time +zscan +zcard +zrange +hmget", ok, needless},
		{"to break", toBreak, ok, needless},
		{
			"to break slots of limits",
			"+hscan +time +zscore +hget +hset +zadd +zrem +hdel +hexists +exists +zrange +pexpire",
			ok, needless,
		},
	}
}

// needless is what happens without rights that few users have.
const needless = "only needed for that"

// toLook is which of them a user who is on call has, and those behind it.
const toLook = 4

// rightsOf finds out what the user may do, by doing it in a way that changes
// nothing. To ask the server (ACL DRYRUN) would need a right of an
// administrator.
func rightsOf(ctx context.Context, client rueidis.Client, prefix string, r *report) {
	all := grants(client.Mode() == rueidis.ClientModeCluster)
	t := trial{client: client, key: prefix + "{%}:doctor", granted: make(map[string]bool)}
	if err := t.run(ctx, all); err != nil {
		f := missed("rights", "", err)
		if !isBusy(f.Found) { // what reads was answered
			f.Change = "see whether writes are paused: `redis-cli CLIENT UNPAUSE` ends that; " +
				"else that nothing on the way drops connections"
		}
		r.add(f)
		return
	}
	if t.refused != "" {
		r.add(finding{
			Check: "writes", Status: failure, Found: "the server refuses them: " + t.refused,
			Change: "see the lines above: it grants no lock",
		})
	}
	if t.onCall() && !t.granted["+set"] {
		r.add(finding{
			Check: "writes", Status: unknown,
			Found: "this user may not write, so none was tried: whether the server takes them " +
				"(CLIENT PAUSE, a full disk) is not known",
			Change: "run this as the user of a service, too",
		})
	}
	if t.onCall() {
		r.add(finding{Check: "rights to lock", Found: "none, as meant for a user who is on call; " +
			"to see what a service may do, run this as its user"})
		all = all[toLook:]
		all[0].lacking, all[0].without = warning, "`lockbeat ls` and the page fail"
	}
	for _, g := range all {
		f := finding{Check: "rights " + g.what, Found: "all of them"}
		if missing := t.missing(g.rights); missing != "" {
			f.Status, f.Found = g.lacking, "without "+missing+": "+g.without
			f.Change = fmt.Sprintf("ACL SETUSER NAME ~%s{* &%s{* %s", prefix, prefix, missing)
		}
		r.add(f)
	}
}

// trial tries commands.
type trial struct {
	client  rueidis.Client
	key     string          // no lock's, under the prefix
	granted map[string]bool // by right
	refused string          // what the server says to a write that the user may do; "" if nothing
}

// onCall reports whether the user looks at locks, and takes none.
func (t *trial) onCall() bool {
	return t.granted["+scan"] && !t.granted["+mget"] && !t.granted["+subscribe"] &&
		!t.granted["+ssubscribe"]
}

// missing returns the rights of a list that the user does not have.
func (t *trial) missing(rights string) string {
	var missing []string
	for right := range strings.FieldsSeq(rights) {
		if !t.granted[right] {
			missing = append(missing, right)
		}
	}
	return strings.Join(missing, " ")
}

// run tries each command once: all of them in one round trip, which may take
// long, but for those to subscribe.
func (t *trial) run(ctx context.Context, all []grant) error {
	var tried []string
	var commands []rueidis.Completed
	for _, g := range all {
		for right := range strings.FieldsSeq(g.rights) {
			if _, known := t.granted[right]; known {
				continue
			}
			t.granted[right] = false
			if strings.HasSuffix(right, "subscribe") {
				var err error
				if t.granted[right], err = t.subscribe(ctx, right[1:]); err != nil {
					return err
				}
				continue
			}
			tried, commands = append(tried, right), append(commands, t.build(right[1:]))
		}
	}
	for i, result := range t.client.DoMulti(ctx, commands...) {
		granted, err := allowed(result.Error())
		if err != nil {
			return err
		}
		t.granted[tried[i]] = granted
		if answer, refused := rueidis.IsRedisErr(result.Error()); refused && granted &&
			!answer.IsNil() && tried[i] == "+set" {
			t.refused = answer.Error()
		}
	}
	return nil
}

// behind are the arguments behind the key with which a command changes nothing:
// the key is not there, or the command refuses them, which a server does only
// after it has looked at rights.
var behind = map[string][]string{
	"get": {}, "mget": {}, "del": {}, "pttl": {}, "exists": {}, "zcard": {}, "hgetall": {},
	"pexpire": {"1"}, "set": {"", "XX", "PX", "1"}, "getrange": {"0", "0"}, "zscan": {"0"},
	"zadd": {"XX", "0", ""}, "zrem": {""}, "zpopmin": {}, "zrange": {"0", "0"}, "zscore": {""},
	"zcount": {"0", "0"}, "zrank": {""}, "hset": {"", "", ""}, "hget": {""}, "hdel": {""},
	"hexists": {""}, "hmget": {""}, "hscan": {"0"}, "publish": {""}, "spublish": {""},
}

// build makes a command that changes nothing.
func (t *trial) build(command string) rueidis.Completed {
	name, sub, _ := strings.Cut(command, "|")
	build := t.client.B().Arbitrary(name)
	switch command {
	case "time":
	case "scan":
		build = build.Args("0", "COUNT", "1")
	case "eval":
		build = build.Args("return 1", "1").Keys(t.key)
	case "evalsha":
		build = build.Args(strings.Repeat("0", 40), "1").Keys(t.key)
	case "cluster|slots", "cluster|shards":
		build = build.Args(sub)
	default:
		build = build.Keys(t.key).Args(behind[command]...)
	}
	return build.Build()
}

// subscribe tries commands of a connection that listens. It is closed rather
// than given back: the client would send UNSUBSCRIBE, and PING behind it, and
// end the process at an answer to that which it does not know.
func (t *trial) subscribe(ctx context.Context, command string) (bool, error) {
	conn, _ := t.client.Dedicate()
	defer conn.Close()
	conn.SetPubSubHooks(rueidis.PubSubHooks{OnMessage: func(rueidis.PubSubMessage) {}})
	build := conn.B().Subscribe().Channel(t.key).Build()
	if command == "ssubscribe" {
		build = conn.B().Ssubscribe().Channel(t.key).Build()
	}
	return allowed(conn.DoMulti(ctx, build)[0].Error())
}

// allowed reads whether a command was let through. Any answer but one about
// rights means that.
func allowed(err error) (bool, error) {
	answer, isAnswer := rueidis.IsRedisErr(err)
	switch {
	case err == nil || rueidis.IsRedisNil(err):
		return true, nil
	case !isAnswer:
		return false, err
	default:
		return !isDenied(answer.Error()), nil
	}
}

// isDenied reports whether the server says that the user may not.
func isDenied(text string) bool { return strings.HasPrefix(text, "NOPERM") }

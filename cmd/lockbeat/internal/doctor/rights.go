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
	// without says what happens where they are missing; "": nothing that is not meant so.
	without string
}

// grants are those that a user may have. A test holds them against the docs.
func grants(cluster bool) []grant {
	lock := "+evalsha +eval +get +mget +set +del +pttl +pexpire +time " +
		"+publish +subscribe"
	if cluster {
		lock = "+evalsha +eval +get +mget +set +del +pttl +pexpire +time " +
			"+spublish +ssubscribe +cluster|slots +cluster|shards"
	}
	return []grant{
		{"to lock", lock, "nothing can be locked"},
		{
			"lines of waiters", "+zadd +zrem +zpopmin +zrange +zscore +exists",
			"each release wakes all who wait",
		},
		{
			"limits",
			"+zadd +zrem +zcard +zcount +zrange +zscore +hset +hget +hdel +hexists +exists",
			"",
		},
		{
			"lines of tasks",
			"+zadd +zrem +zrange +zrank +zcard +zscore +hset +hdel +hgetall +exists",
			"",
		},
		{"to look", "+scan +getrange +pttl +time +zscan +zcard +zrange +hmget", ""},
		{"to break", "+evalsha +eval +get +set +del +pttl +publish +zpopmin", ""},
	}
}

// rightsOf finds out what the user may do, by doing it in a way that changes nothing. To ask the
// server (ACL DRYRUN) would need a right of an administrator.
func rightsOf(ctx context.Context, client rueidis.Client, prefix string, r *report) {
	t := trial{client: client, key: prefix + "{%}:doctor", known: make(map[string]bool)}
	all := grants(client.Mode() == rueidis.ClientModeCluster)
	missing := make([]string, len(all))
	for i, g := range all {
		var err error
		if missing[i], err = t.missing(ctx, g.rights); err != nil {
			r.add(missed("rights "+g.what, "", err))
			return
		}
	}
	const looking = 4
	for i, g := range all {
		f := finding{Check: "rights " + g.what, Found: "all of them"}
		if missing[i] != "" {
			f.Found = "without " + missing[i]
			f.Change = fmt.Sprintf("ACL SETUSER NAME ~%s{* &%s{* %s", prefix, prefix, missing[i])
			switch {
			case g.without == "":
				f.Found += "; only needed for that"
			case i == 0 && missing[looking] != "":
				f.Status = failure
			default: // a user to look with may lock nothing
				f.Status = warning
			}
			if g.without != "" {
				f.Found += ": " + g.without
			}
		}
		r.add(f)
	}
}

// trial tries commands.
type trial struct {
	client rueidis.Client
	key    string // no lock's, under the prefix
	known  map[string]bool
}

// missing returns the rights of a list that the user does not have.
func (t *trial) missing(ctx context.Context, rights string) (string, error) {
	var missing []string
	for right := range strings.FieldsSeq(rights) {
		granted, known := t.known[right]
		if !known {
			var err error
			if granted, err = t.try(ctx, right[1:]); err != nil {
				return "", err
			}
			t.known[right] = granted
		}
		if !granted {
			missing = append(missing, right)
		}
	}
	return strings.Join(missing, " "), nil
}

// behind are the arguments behind the key with which a command changes nothing: the key is not
// there, or the command refuses them, which a server does only after it has looked at rights.
var behind = map[string][]string{
	"get": {}, "mget": {}, "del": {}, "pttl": {}, "exists": {}, "zcard": {}, "hgetall": {},
	"pexpire": {"1"}, "set": {"", "XX", "PX", "1"}, "getrange": {"0", "0"}, "zscan": {"0"},
	"zadd": {"XX", "0", ""}, "zrem": {""}, "zpopmin": {}, "zrange": {"0", "0"}, "zscore": {""},
	"zcount": {"0", "0"}, "zrank": {""}, "hset": {"", "", ""}, "hget": {""}, "hdel": {""},
	"hexists": {""}, "hmget": {""}, "publish": {""}, "spublish": {""},
}

// try reports whether the user may call a command.
func (t *trial) try(ctx context.Context, command string) (granted bool, err error) {
	if strings.HasSuffix(command, "subscribe") {
		return t.subscribe(ctx, command)
	}
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
	return allowed(t.client.Do(ctx, build.Build()).Error())
}

// subscribe tries commands of a connection that listens. It is closed rather than given back: the
// client would send UNSUBSCRIBE, and PING behind it, and end the process at an answer to that which
// it does not know.
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

// allowed reads whether a command was let through. Any answer but one about rights means that.
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

// Package probe asks a server what a store must know of it: whether it may run
// what locks need, whether waiters can stand in line there, which server it is,
// and whether it is set so that it may lose locks.
//
// It changes nothing on the server, knows no lock, and decides nothing but
// whether the store may be made: what it has found out, it tells by the
// functions of a [Prober].
package probe

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/refusal"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/script"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/topology"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/wire"
)

// elsewhere is as schema.NoName no lock's, and in another slot.
const elsewhere = "%%"

// Prober asks one deployment. All fields but Topology must be set.
type Prober struct {
	Client   rueidis.Client
	Topology *topology.Topology // of a cluster; nil otherwise
	Errors   *refusal.Reader
	CanLine  func()          // is called if the server lets places stand in line
	IsServer func(id string) // is told the server's run ID
	Log      *slog.Logger
}

// Ask asks all that a new store must know, for about a second at most. It
// returns what was not answered, for Later, or an error if the server
// definitely refuses what locks need.
func (p *Prober) Ask(ctx context.Context) (left []Question, err error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	if p.Topology != nil {
		// First: the server that is asked may be the one that does not answer.
		p.Topology.Learn(ctx)
		if err := nodesHaveNames(ctx, p.Client); err != nil {
			return nil, err
		}
	}
	return ask(ctx, p.questions())
}

// questions are all that a new store asks.
func (p *Prober) questions() []Question {
	if p.Errors.ToInspect {
		return []Question{p.probeLook}
	}
	all := []Question{p.probe, p.warning("maxmemory-policy", warnOfEviction), p.askLines}
	if p.Topology == nil {
		all = append(all, p.askRunID)
	}
	if p.Client.Mode() == rueidis.ClientModeSentinel {
		all = append(all, p.warning("min-replicas-to-write", warnOfNoReplicas))
	}
	return all
}

// probe asks whether the server lets us do what locks need.
func (p *Prober) probe(ctx context.Context) error {
	key := p.Errors.Prefix + "{" + schema.NoName + "}"
	keys := []string{key, key + schema.FenceSuffix}
	if p.Topology == nil {
		// A node of a cluster refuses keys of two slots, whichever it serves.
		// So a client that does not know that there is one is found out: as
		// long as it is lucky with its locks' slots, all would seem well.
		keys = append(keys, p.Errors.Prefix+"{"+elsewhere+"}")
	}
	// By text first, then by name: so that both rights are needed, and the name
	// is known.
	for _, whole := range []bool{true, false} {
		r := wire.Do(ctx, p.Client, script.Probe.Command(p.Client.B(), whole, keys, p.mode()))
		reply, err := r.ToMessage()
		if err != nil {
			var answer *rueidis.RedisError
			if errors.As(err, &answer) && p.Errors.Definite(answer.Error()) ||
				errors.Is(err, rueidis.ErrNoCache) {
				return p.refused(ctx, err)
			}
			return p.orLater(r)
		}
		denied, err := reply.ToArray()
		if err != nil || len(denied) == 0 {
			continue // an odd reply will be met by the locks' own scripts, which say so
		}
		if len(denied) == 2 {
			command, _ := denied[0].ToString()
			text, _ := denied[1].ToString()
			if p.Errors.Definite(text) {
				return p.Errors.Denied(schema.Part(command), text)
			}
			if p.Errors.NotReady(text) {
				return refusal.ErrLater
			}
		}
		return nil
	}
	return p.probeWait(ctx)
}

// refused is the error for what the server definitely refuses. A Sentinel knows
// none of our commands, and would be taken for a server that has renamed them.
func (p *Prober) refused(ctx context.Context, err error) error {
	if p.Errors.NoCommand(err) {
		hello := wire.Do(ctx, p.Client, p.Client.B().Arbitrary("HELLO").Build())
		if server, err := hello.AsStrMap(); err == nil && server["mode"] == "sentinel" {
			return &refusal.Error{
				Op: "new", Text: "the server is a Sentinel",
				Hint: "let LOCKBEAT_SENTINEL_MASTER, ?sentinel_master= of the URL, or " +
					"Sentinel.MasterSet of rueidis.ClientOption name its primary",
				Mark: renewer.ErrConfig,
			}
		}
	}
	return p.Errors.Wrap("new", err)
}

// mode is that of tell.lua in which the server would be used.
func (p *Prober) mode() string {
	if p.Topology != nil {
		return script.ModeShard
	}
	return script.ModeLine
}

// probeWait finds out whether the server would wait for replicas, if
// it will be asked to: for none of them, which takes no time.
func (p *Prober) probeWait(ctx context.Context) error {
	if p.Errors.Replicas == 0 {
		return nil
	}
	r := wire.Do(ctx, p.Client, p.Client.B().Wait().Numreplicas(0).Timeout(1).Build())
	if answer, ok := rueidis.IsRedisErr(r.Error()); ok && p.Errors.Definite(answer.Error()) {
		return p.Errors.Denied("WAIT", answer.Error())
	}
	return p.orLater(r)
}

// askLines asks whether the server lets waiters stand in line on it. If not,
// and until that is known, they are all woken when a lock is free.
func (p *Prober) askLines(ctx context.Context) error {
	keys := []string{p.Errors.Prefix + "{" + schema.NoName + "}"}
	r := wire.Do(ctx, p.Client, script.Probe.Command(p.Client.B(), true, keys, p.mode(), "line"))
	denied, err := r.ToArray()
	if err == nil && len(denied) == 2 {
		text, _ := denied[1].ToString()
		if p.Errors.NotReady(text) {
			return refusal.ErrLater
		}
		if strings.Contains(text, "syntax error") { // at GT
			return &refusal.Error{
				Op: "new",
				Text: "the server is older than Redis 6.2: " +
					p.Errors.Secrets.Printable(text),
				Hint: "run Redis 6.2 or later, or Valkey", Mark: renewer.ErrRejected,
				Err: refusal.ErrDenied,
			}
		}
	}
	if err == nil && len(denied) == 0 {
		p.CanLine()
	}
	return p.orLater(r)
}

// askRunID asks the server for its run ID, which it may keep from us.
func (p *Prober) askRunID(ctx context.Context) error {
	r := wire.Do(ctx, p.Client, p.Client.B().Info().Section("server").Build())
	text, err := r.ToString()
	if err != nil {
		return p.orLater(r)
	}
	for line := range strings.Lines(text) {
		if id, ok := strings.CutPrefix(line, "run_id:"); ok {
			p.IsServer(strings.TrimSpace(id))
		}
	}
	return nil
}

// warning makes a question about one of the server's settings, which it may
// keep from us. If warn has something to say about the value, it is logged.
func (p *Prober) warning(setting string, warn func(value string) string) Question {
	return func(ctx context.Context) error {
		r := wire.Do(ctx, p.Client, p.Client.B().ConfigGet().Parameter(setting).Build())
		config, err := r.AsStrMap()
		if err != nil {
			return p.orLater(r)
		}
		if value := config[setting]; value != "" {
			if text := warn(value); text != "" {
				p.Log.LogAttrs(ctx, slog.LevelWarn, "lockbeat: "+text, slog.String(setting, value))
			}
		}
		return nil
	}
}

// warnOfEviction warns of a server that may throw locks away before their time.
func warnOfEviction(policy string) string {
	if policy == "noeviction" {
		return ""
	}
	return "this Redis server may evict locks when its memory is full, and then two owners may " +
		"hold one; " +
		"keep locks on a server with maxmemory-policy noeviction"
}

// warnOfNoReplicas warns of a server that goes on without a replica: after a
// fail-over, clients that reach no Sentinel may go on with the former primary.
// The setting bounds that, and does not exclude it: see docs/redis.md.
func warnOfNoReplicas(least string) string {
	if least != "0" {
		return ""
	}
	return "this Redis server would go on to grant locks after a fail-over that it has not heard " +
		"of, to clients that have not heard of it either, without end; to end that some seconds " +
		"later, set min-replicas-to-write 1 and min-replicas-max-lag on all servers behind Sentinel"
}

// orLater is [refusal.ErrLater] if the server has not answered, or will answer
// differently in a moment; and otherwise nil: to ask again would be of no use.
func (p *Prober) orLater(r rueidis.RedisResult) error {
	if r.NonRedisError() != nil {
		return refusal.ErrLater
	}
	if answer, ok := rueidis.IsRedisErr(r.Error()); ok && p.Errors.NotReady(answer.Error()) {
		return refusal.ErrLater
	}
	return nil
}

const (
	// timeout bounds what New spends on asking the server, and each round of
	// questions later.
	timeout = time.Second
	// Between these the pause doubles before what was not answered is asked
	// again.
	firstPause = 100 * time.Millisecond
	lastPause  = 5 * time.Second
)

// Question asks the server something about itself, and notes the answer. It
// returns [refusal.ErrLater] if there was none yet, and any other error if the
// server definitely refuses what locks need.
type Question func(ctx context.Context) error

// ask asks questions once, and returns those that were not answered, and the
// first refusal.
func ask(ctx context.Context, questions []Question) (left []Question, err error) {
	for _, q := range questions {
		switch err := q(ctx); {
		case errors.Is(err, refusal.ErrLater):
			left = append(left, q)
		case err != nil:
			return nil, err
		}
	}
	return left, nil
}

// Later asks what was not answered until it is, until life ends, or until the
// client is closed.
func (p *Prober) Later(
	life context.Context, questions []Question, closed func(context.Context) bool,
) {
	for pause := firstPause; len(questions) > 0; pause = min(2*pause, lastPause) {
		// lest all processes ask a restarted server at once
		timer := time.NewTimer(pause/2 + rand.N(pause/2))
		select {
		case <-timer.C:
		case <-life.Done():
			timer.Stop()
			return
		}
		ctx, cancel := context.WithTimeout(life, timeout)
		left, err := ask(ctx, questions)
		cancel()
		if len(left) > 0 {
			ctx, cancel = context.WithTimeout(life, timeout) // there may be nothing left of it
			if closed(ctx) {
				left = nil
			}
			cancel()
		}
		if err != nil { // New has returned: every request will say so as well
			p.Log.LogAttrs(life, slog.LevelWarn,
				"lockbeat: this Redis server refuses what locks need", slog.Any("error", err))
			return
		}
		questions = left
	}
}

// probeLook asks whether the server lets us do what List and Show need.
func (p *Prober) probeLook(ctx context.Context) error {
	b := p.Client.B()
	key := schema.MarkKey(p.Errors.Prefix, schema.NoName) + ":look" // which nobody has
	all := []rueidis.Completed{
		b.Scan().Cursor(0).Match(schema.Pattern(p.Errors.Prefix)).Count(1).Build(),
		b.Time().Build(),
		b.Pttl().Key(key).Build(),
		b.Zscan().Key(key).Cursor(0).Build(),
		b.Zcard().Key(key).Build(),
		b.Zrange().Key(key).Min("0").Max("0").Build(),
		b.Hmget().Key(key).Field("x").Build(),
	}
	// A client that takes a node of a cluster for a single server would show
	// that one's locks alone. The node sends it elsewhere for the slots that it
	// has not.
	for slot := range uint16(topology.Slots / 1024) {
		key := schema.MarkKey(p.Errors.Prefix, topology.TagOf(slot*1024)) + ":look"
		all = append(all, b.Getrange().Key(key).Start(0).End(0).Build())
	}
	for _, command := range all {
		r := wire.Do(ctx, p.Client, command)
		if answer, ok := rueidis.IsRedisErr(r.Error()); ok && p.Errors.Definite(answer.Error()) {
			return p.refused(ctx, r.Error())
		}
		if err := p.orLater(r); err != nil {
			return err
		}
	}
	return nil
}

// unnamed is what a node of a cluster is called that is to be known by its host
// name and has none.
const unnamed = "?"

// nodesTimeout leaves time for the other questions of New where a node does not
// answer.
const nodesTimeout = 300 * time.Millisecond

// nodesHaveNames returns an error if a primary of the cluster has no address.
// The client leaves such a node out, and each request to it would wait until
// its deadline. What can't be asked now, later requests show.
func nodesHaveNames(ctx context.Context, client rueidis.Client) error {
	ctx, cancel := context.WithTimeout(ctx, nodesTimeout)
	defer cancel()
	rows, err := client.Do(ctx, client.B().ClusterSlots().Build()).ToArray()
	if err != nil {
		return nil
	}
	for _, row := range rows {
		fields, err := row.ToArray()
		if err != nil || len(fields) < 3 {
			continue
		}
		node, err := fields[2].ToArray()
		if err != nil || len(node) == 0 {
			continue
		}
		if host, err := node[0].ToString(); err == nil && host == unnamed {
			return fmt.Errorf("redisstore: new: %w: a node of the cluster calls itself %q, so "+
				"that no client finds it: set cluster-announce-hostname on each node, or "+
				"cluster-preferred-endpoint-type to ip", renewer.ErrRejected, unnamed)
		}
	}
	return nil
}

// TryWrite sends a write that changes nothing and returns an error if a replica
// has refused it. Other errors are not its matter.
func TryWrite(
	ctx context.Context, conn rueidis.DedicatedClient, faults *refusal.Reader,
) error {
	err := conn.Do(ctx, conn.B().Del().Key(schema.UnusedKey(faults.Prefix)).Build()).Error()
	if faults.Replica(err) {
		return faults.Wrap("watch", err)
	}
	return nil
}

package redisstore

import (
	"context"
	"log/slog"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/internal/deployment"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/native"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/refusal"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/schema"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/script"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/subscription"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/topology"
	"github.com/lockbeat/lockbeat/renewer/redisstore/internal/wire"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// Engine is what a Store is to a keeper.
type Engine = engine

// NewEngine is [New] without the face of a Store.
func NewEngine(client rueidis.Client, opts ...Option) (*Engine, error) {
	return engineOf(New(client, opts...))
}

// OpenEngine is [Open] without the face of a Store.
func OpenEngine(ctx context.Context, d Deployment, opts ...Option) (*Engine, error) {
	return engineOf(Open(ctx, d, opts...))
}

func engineOf(s *Store, err error) (*Engine, error) {
	if err != nil {
		return nil, err
	}
	return s.engine, nil
}

// Engine has an Engine be a renewer.Store.
func (s *engine) Engine() store.Store { return s }

const (
	MaxPart   = schema.MaxPart
	MaxRecord = 16 << 20
	MaxExact  = schema.MaxExact
	MaxKeys   = maxKeys

	MostUnderWay = wire.MostUnderWay
	MostAlone    = wire.MostAlone

	Rights = refusal.Rights

	WaitRight        = refusal.WaitRight
	NativeRights     = refusal.NativeRights
	LineRights       = refusal.LineRights
	LimitRights      = refusal.LimitRights
	BreakRights      = refusal.BreakRights
	BreakLimitRights = refusal.BreakLimitRights
	LookRights       = refusal.LookRights
	TaskRights       = refusal.TaskRights
	RoleRight        = refusal.RoleRight
	SentinelRights   = refusal.SentinelRights
	ClusterRights    = refusal.ClusterRights
)

var (
	LeaseKey = schema.LockKey
	KeyOf    = schema.LeaseKey

	ProcessChannel = schema.ProcessChannel
	ReadGrant      = readGrant
	ReadAnswers    = readAnswers
	ErrClosed      = subscription.ErrClosed
)

// OneKeyAScript makes the store send what it sends to a cluster.
func (s *engine) OneKeyAScript() {
	s.codec.perCall = 1
	s.setWindows()
}

// Joins reports whether these claims can go in one command with those of
// others.
func (s *engine) Joins(claims ...store.Claim) bool { return s.acquires.Joins(claims) }

// Places counts the places that the store keeps for claims.
func (s *engine) Places() int {
	_, places := s.line.Counts()
	return places
}

// Names counts the names that the store wants to hear of, or has places for.
func (s *engine) Names() int {
	names, _ := s.line.Counts()
	return names
}

// Acquiring is the window of acquires to a shard.
func (s *engine) Acquiring(shard int) interface{ Under() (way, waiting int) } {
	return s.acquiring.Of(shard)
}

// Client returns the caller's client.
func (s *engine) Client() rueidis.Client { return s.sender.Client }

// Topology is what a store knows of its cluster.
func (s *engine) Topology() *topology.Topology { return s.topology }

// LockKeys are the keys of a lock's lease, and of the counter of the tokens
// that it was given.
func LockKeys(prefix, name string) (lease, fence string) {
	lease = schema.LockKey(prefix, name)
	return lease, lease + schema.FenceSuffix
}

// LineKey is the key of a lock's line.
func LineKey(prefix, name string) string { return schema.LockKey(prefix, name) + schema.LineSuffix }

// MarkKey is the key of the mark of a single server.
func MarkKey(prefix string) string { return schema.MarkKey(prefix, schema.NoName) }

// ScriptText is the whole text of a script that keeps locks, by its file.
func ScriptText(file string) string {
	text := map[string]script.Script{
		"acquire.lua": script.Acquire, "propose.lua": script.Propose, "renew.lua": script.Renew,
		"release.lua": script.Release, "break.lua": script.Break, "slots_break.lua": script.SlotsBreak,
		"slots_renew.lua": script.SlotsRenew, "slots_release.lua": script.SlotsRelease,
		"newest.lua": script.Newest, "begin.lua": script.Begin,
		"free.lua": script.Free,
	}[file]
	_, whole := text.Called(true)
	return whole
}

// NativeAtOnce makes claims native by a script's token alone.
func (s *engine) NativeAtOnce() {
	s.codec.native = &native.Rule{Quiet: func() bool { return true }}
}

// NeverNative has scripts do all.
func (s *engine) NeverNative() { s.codec.native.Refused(true) }

// NativeName is how long a name may be whose lock is claimed natively.
const NativeName = nativeName

// Took notes how long a claim took.
func (s *engine) Took(d time.Duration) { s.line.Took(d) }

// LongWait sets how long a name is waited for before those in its line listen
// to what is for all.
func (s *engine) LongWait(d time.Duration) { s.line.LongWait = d }

// Inbox is by which the places of a store name it on the server.
func (s *engine) Inbox() string { return s.line.ID() }

// FaceKey is where a store says who waits in its process.
func FaceKey(prefix string, s *engine) string { return schema.FaceKey(prefix, s.Inbox()) }

// LogOf is where a store with these options warns.
func LogOf(opts ...Option) *slog.Logger {
	c, _ := configure(opts)
	return c.log
}

// FromLookup is FromEnv with other variables than the process's.
func FromLookup(lookup func(name string) (string, bool)) (Deployment, error) {
	return described(deployment.FromLookup(lookup))
}

// Shares reports whether a client of this process has one connection for all.
var Shares = wire.Shares

// Heard reports whether a message has told of a grant to a place.
func (s *engine) Heard(place uint64) bool { return s.line.Heard(place) }

// Came notes since when a place stands in line, in us of the server's clock.
func (s *engine) Came(place uint64, since int64) { s.line.Came(place, since) }

package integration_test

import (
	"encoding/json"
	"errors"
	"io"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const module = "github.com/lockbeat/lockbeat/"

// layer is what packages may import of ours, in words with spaces between. A word that ends in
// "/..." stands for a folder and all below it. Tests may import more: see foreign.
type layer struct{ packages, may, why string }

// layers says who may import whom. The first row that has a package counts. What is allowed to more
// packages than one has its reason where it is allowed first.
var layers = []layer{
	{
		"renewer/internal/desk", "internal/contract renewer/internal/timing renewer/store",
		"who is next is decided without a store, a clock or a lease: data in, decisions out",
	},
	{
		"renewer/internal/lease", "renewer/internal/asking renewer/internal/timing renewer/store",
		"what is believed of one lease needs no keeper, and no other lease",
	},
	{
		"renewer/internal/...", "internal/contract renewer/internal/... renewer/store",
		"a part of the engine knows the contract of a store, and no keeper: it can be tested alone",
	},
	{"renewer/store", "", "the contract stands below all that keep to it"},
	{"internal/contract", "renewer/store", "it is the contract's part for our own stores"},
	{
		"renewer", "internal/contract renewer/internal/... renewer/store",
		"the engine is the ground floor: whatever it imports is linked into every user's program",
	},
	{
		rooms("schema"),
		"internal/contract renewer/store " + rooms("topology"),
		"what stands on the server is text, which is written and read without asking one",
	},
	{
		rooms("refusal"),
		"internal/deployment renewer " + rooms("schema"),
		"what an error means is told to all of the store, and asks nobody",
	},
	{
		rooms("script"),
		rooms("refusal schema wire"),
		"it calls any script, and knows what none is asked",
	},
	{
		rooms("records"),
		"renewer renewer/store " + rooms("refusal schema script"),
		"a record is told from others by its token, and knows no lease",
	},
	{
		rooms("tasks"),
		"internal/contract renewer/store " + rooms("refusal schema script"),
		"a line of tasks is beside the locks, and knows no lease",
	},
	{
		rooms("view"),
		"internal/contract renewer renewer/store " + rooms("line refusal schema wire"),
		"it shows what plain commands read: with no script it takes, breaks and frees nothing",
	},
	{
		rooms("probe"),
		"renewer " + rooms("refusal schema script topology wire"),
		"it asks a server what it can do, before there is a lock",
	},
	{
		rooms("subscription wire"), rooms("topology"),
		"it knows channels, or commands, and the servers that they go to, and no lock",
	},
	{
		rooms("line"), "internal/contract renewer/store " + rooms("schema"),
		"it keeps the places of this process and their claims, and sends nothing",
	},
	{
		"renewer/redisstore/internal/...", "",
		"a part of the Redis store stands alone, unless a row above says on what",
	},
	{
		"internal/deployment", "renewer renewer/store",
		"where Redis is, for the store and for the command; it knows no lock",
	},
	{
		"renewer/redisstore",
		"internal/contract internal/deployment renewer renewer/store " +
			"renewer/redisstore/internal/...",
		"a store implements the contract and serves whoever sits above it",
	},
	{
		"renewer/quorum", "internal/contract renewer renewer/store renewer/internal/timing",
		"it counts a lease's time by the engine's clock",
	},
	{
		"renewer/...", "internal/contract renewer renewer/store",
		"a store implements the contract; one that needs another takes it by the contract",
	},
	{
		"lockmw/internal/repeat",
		"lockmw lockmw/internal/ended lockmw/internal/names lockmw/internal/option " +
			"lockmw/internal/quota lockmw/internal/scope lockmw/once renewer renewer/store",
		"what idempotent and grpcmw share stands on once; it knows no protocol",
	},
	{
		"lockmw/adapter", "lockmw lockmw/internal/... renewer renewer/store",
		"for who writes an adapter: what lockmw does, with the answers that a framework needs",
	},
	{
		"lockmw lockmw/internal/...", "internal/contract lockmw/internal/... renewer renewer/store",
		"the middleware works on any keeper; adapters stand on it, not the other way round",
	},
	{
		"lockmw/httpmw",
		"lockmw lockmw/adapter lockmw/internal/full lockmw/internal/httpguard " +
			"lockmw/internal/names lockmw/internal/option lockmw/internal/profile " +
			"lockmw/internal/quota lockmw/internal/scope lockmw/internal/unwind " +
			"lockmw/internal/wire renewer renewer/store",
		"who puts a lock around a handler must not link the records of package once",
	},
	{
		"lockmw/idempotent",
		"lockmw lockmw/adapter lockmw/httpmw lockmw/internal/... lockmw/once renewer renewer/store",
		"it answers as httpmw does and remembers as once does; it needs no store and no other adapter",
	},
	{
		"lockmw/ginmw", "lockmw lockmw/httpmw renewer",
		"it gives gin the middleware of httpmw, and has no locking of its own",
	},
	{
		"lockmw/cronmw/gocronmw",
		"lockmw/cronmw lockmw/cronmw/internal/... renewer",
		"it gives gocron the jobs of cronmw",
	},
	{
		"lockmw/fencedb/fencedpgx", "lockmw/fencedb lockmw/internal/fence",
		"it gives pgx the fences of fencedb, which are decided below both",
	},
	{
		"lockmw/rivermw", "lockmw lockmw/jobs renewer",
		"it gives River the jobs of package jobs, and has no locking of its own",
	},
	{
		"lockmw/asynq",
		"internal/contract internal/deployment lockmw lockmw/internal/wire lockmw/jobs renewer " +
			"renewer/redisstore renewer/store",
		"as rivermw; lockmw elects the leader of its schedules, and RedisOpt takes a deployment",
	},
	{
		"lockmw/...",
		"internal/contract lockmw lockmw/adapter lockmw/internal/... lockmw/once " +
			"lockmw/cronmw/internal/... renewer renewer/store",
		"an adapter translates between one framework and lockmw; what two of them need belongs there",
	},
	{
		"inspect", "renewer renewer/store",
		"it asks any store that can be inspected, by the contract, and links none",
	},
	{
		"inspect/...", "inspect renewer renewer/store",
		"it shows what inspect shows, of any store, and knows no keeper",
	},
	{
		"tracing/...", "lockmw renewer renewer/store tracing/internal/...",
		"it is an Observer of the engine, the same with every store and every adapter",
	},
	{
		"testutil/jobtest", "lockmw lockmw/jobs renewer renewer/redisstore testutil/... internal/testutil/...",
		"it plays adapters of jobs, on locks in Redis; only adapters' tests import it",
	},
	{
		"testutil/... internal/testutil/...",
		"internal/contract renewer renewer/store testutil/... internal/testutil/...",
		"tests of what it proves import it, so that importing them back would make a cycle",
	},
	{
		"cmd/lockbeat/internal/exit cmd/lockbeat/internal/tree cmd/lockbeat/internal/connect",
		"internal/deployment renewer renewer/store renewer/redisstore",
		"what all commands use knows none of them",
	},
	{
		"cmd/lockbeat/internal/guard", "cmd/lockbeat/internal/tree",
		"the guard of a command asks no server: all that it knows comes by its socket",
	},
	{
		"cmd/lockbeat/internal/cli cmd/lockbeat", "cmd/lockbeat/internal/... internal/deployment",
		"the root knows its commands, and leaves locks to them",
	},
	{
		"cmd/...",
		"cmd/lockbeat/internal/... inspect inspect/page internal/deployment renewer renewer/store " +
			"renewer/redisstore",
		"a command works on the engine, or on what inspect shows; it is no middleware",
	},
	{"examples/... bench nemesis/... integration", "...", "programs, which nobody imports"},
}

// rooms are some of the parts of the Redis store.
func rooms(names string) string {
	const folder = "renewer/redisstore/internal/"
	return folder + strings.ReplaceAll(names, " ", " "+folder)
}

// foreign is what no package may import but some, in code or in tests.
var foreign = []struct {
	paths, code, tests string
	why                string
}{
	{
		module + "tracing", "examples/... bench", "tracing integration/... examples/... bench",
		"telemetry reaches the engine as an Observer that the user passes in",
	},
	{
		module + "testutil/embedded", "examples/...",
		"testutil/embedded integration/... examples/...",
		"a module whose tests import it makes its users list miniredis",
	},
	{
		module + "testutil " + module + "internal/testutil testing testing/synctest " +
			"github.com/stretchr/testify go.uber.org/goleak",
		"testutil/... internal/testutil/... examples/... bench nemesis/...", "...",
		"test code never links into a production build",
	},
	{
		"go.opentelemetry.io/otel/sdk go.opentelemetry.io/otel/exporters go.opentelemetry.io/contrib",
		"examples/... bench", "integration/... examples/... bench",
		"the program picks the SDK and where telemetry goes; tracing names neither",
	},
	{
		"go.opentelemetry.io", "tracing examples/... bench",
		"tracing integration/... examples/... bench", "only tracing speaks OpenTelemetry",
	},
	{
		"github.com/redis/rueidis/rueidisotel github.com/go-chi/chi github.com/grpc-ecosystem " +
			"github.com/prometheus",
		"examples/... bench", "integration/... examples/... bench",
		"integration shows that we work with them; the user picks them",
	},
	{
		"github.com/bsm/redislock github.com/go-redsync github.com/redis/rueidis/rueidislock",
		"bench", "integration/libraries bench", "other locks are measured, and moved away from",
	},
	{
		"github.com/redis/rueidis",
		"renewer/redisstore/... internal/deployment cmd/lockbeat/... testutil/... " +
			"internal/testutil/... examples/... bench " +
			"nemesis/...", "...",
		"Redis is one store among several; everything above redisstore speaks to the contract",
	},
	{
		"github.com/redis/go-redis", "lockmw/asynq examples/... bench",
		"lockmw/asynq integration/libraries", "it is here only because asynq brings it",
	},
	{
		"github.com/alicebob/miniredis", "testutil/embedded", "testutil/embedded",
		"testutil/embedded starts it with the clock it needs: used bare, its TTLs never end",
	},
	{
		"github.com/hibiken/asynq", "lockmw/asynq examples/... bench",
		"lockmw/asynq integration/... nemesis/... examples/... bench",
		"who locks without asynq must not download it",
	},
	{
		"github.com/riverqueue", "lockmw/rivermw examples/...", "lockmw/rivermw examples/...",
		"who locks without River must not download it",
	},
	{
		"google.golang.org", "lockmw/grpcmw examples/... bench",
		"lockmw/grpcmw integration/... nemesis/... examples/... bench",
		"who locks without gRPC must not download it",
	},
	{
		"github.com/robfig/cron github.com/go-co-op/gocron", "lockmw/cronmw/... examples/...",
		"lockmw/cronmw/... examples/...", "who locks without a schedule must not link it",
	},
	{
		"github.com/gin-gonic/gin", "lockmw/ginmw examples/...", "lockmw/ginmw examples/...",
		"who locks without gin must not download it",
	},
	{
		"github.com/felixge/httpsnoop", "lockmw/httpmw", "lockmw/httpmw",
		"only httpmw has a use for it, where a user has asked to have the writer tracked",
	},
	{
		"github.com/jackc/pgx", "lockmw/fencedb/fencedpgx cmd/lockbeat/internal/doctor examples/...",
		"integration/sql lockmw/fencedb/fencedpgx lockmw/rivermw examples/...",
		"we speak database/sql, and the program picks the driver; who picks another has no pgx",
	},
	{
		"modernc.org/sqlite github.com/go-sql-driver/mysql github.com/lib/pq gorm.io",
		"cmd/lockbeat/internal/doctor examples/...", "integration/sql examples/...",
		"we speak database/sql, and the program picks the driver",
	},
	{
		"net/http", "lockmw/httpmw lockmw/ginmw lockmw/idempotent lockmw/internal/httpguard " +
			"inspect/... cmd/... examples/... bench internal/testutil/...", "...",
		"who locks without HTTP must not link it",
	},
	{"github.com/spf13", "cmd/lockbeat/...", "cmd/lockbeat/...", "only a program has flags"},
	{"log", "examples/...", "", "the library never prints"},
	{"math/rand", "", "", "math/rand/v2 needs no seed"},
}

// in reports whether a package is one of those that a row names.
func in(name, row string) bool {
	for word := range strings.FieldsSeq(row) {
		folder, below := strings.CutSuffix(word, "...")
		if name == word || below && (strings.HasPrefix(name, folder) || name+"/" == folder) {
			return true
		}
	}
	return false
}

// forbids says why a package must not import another; "" if it may.
func forbids(name, imported string, test bool) string {
	ours, own := strings.CutPrefix(imported, module)
	for _, l := range layers {
		if !test && own && in(name, l.packages) {
			// foreign has those that are named here
			if !in(ours, l.may) && !in(ours, "testutil/... internal/testutil/... tracing") {
				return l.why
			}
			break
		}
	}
	for _, f := range foreign {
		for path := range strings.FieldsSeq(f.paths) {
			if imported != path && (!strings.HasPrefix(imported, path+"/") ||
				path == "testing" || path == "log" || path == "math/rand") {
				continue
			}
			if test && in(name, f.tests) || !test && in(name, f.code) {
				return ""
			}
			return f.why
		}
	}
	return ""
}

func TestLayers(t *testing.T) {
	t.Parallel()
	out, err := exec.CommandContext(t.Context(), "go", "list",
		"-json=ImportPath,Imports,TestImports,XTestImports", "work").Output()
	require.NoError(t, err)
	packages := 0
	for all := json.NewDecoder(strings.NewReader(string(out))); ; packages++ {
		var p struct {
			ImportPath                         string
			Imports, TestImports, XTestImports []string
		}
		if err := all.Decode(&p); errors.Is(err, io.EOF) {
			break
		}
		name := strings.TrimPrefix(p.ImportPath, module)
		for i, imports := range [][]string{p.Imports, p.TestImports, p.XTestImports} {
			for _, imported := range imports {
				if why := forbids(name, imported, i > 0); why != "" {
					t.Errorf("%s must not import %s (in a test: %t): %s", name, imported, i > 0, why)
				}
			}
		}
	}
	require.Greater(t, packages, 50)
}

// Each row catches what it is for.
func TestLayersThatAreBroken(t *testing.T) {
	t.Parallel()
	for _, broken := range []string{
		"renewer/internal/beat " + module + "renewer", "renewer/store " + module + "renewer",
		"renewer " + module + "renewer/memory",
		"renewer/redisstore/internal/topology " + module + "renewer",
		"renewer/redisstore/internal/wire " + module + "renewer/redisstore/internal/schema",
		"renewer/redisstore/internal/line " + module + "renewer/redisstore/internal/subscription",
		"renewer/redisstore/internal/schema " + module + "renewer/redisstore/internal/wire",
		"renewer/redisstore/internal/refusal " + module + "renewer/redisstore/internal/wire",
		"renewer/redisstore/internal/records " + module + "renewer/redisstore/internal/line",
		"renewer/redisstore/internal/tasks " + module + "renewer/redisstore/internal/records",
		"renewer/redisstore/internal/view " + module + "renewer/redisstore/internal/script",
		"renewer/redisstore/internal/probe " + module + "renewer/redisstore/internal/line",
		"renewer/redisstore " + module + "renewer/internal/timing",
		"internal/deployment " + module + "renewer/redisstore",
		"renewer/quorum " + module + "renewer/memory",
		"lockmw/internal/repeat " + module + "lockmw/httpmw",
		"lockmw " + module + "renewer/memory", "lockmw/internal/wire " + module + "lockmw",
		"lockmw/httpmw " + module + "lockmw/once", "lockmw/idempotent " + module + "lockmw/grpcmw",
		"lockmw/asynq " + module + "renewer/memory", "lockmw/jobs " + module + "renewer/redisstore",
		"inspect " + module + "renewer/redisstore", "inspect/page " + module + "renewer/memory",
		"tracing " + module + "lockmw/asynq",
		"testutil/script " + module + "renewer/memory",
		"renewer " + module + "tracing", "lockmw " + module + "testutil/script", "renewer testing",
		"tracing go.opentelemetry.io/otel/sdk/trace", "renewer go.opentelemetry.io/otel/trace",
		"lockmw/httpmw github.com/go-chi/chi/v5", "lockmw github.com/redis/rueidis",
		"renewer/redisstore github.com/redis/go-redis/v9",
		"renewer/redisstore github.com/redis/rueidis/rueidislock",
		"renewer/redisstore github.com/alicebob/miniredis/v2", "lockmw github.com/hibiken/asynq",
		"lockmw/jobs github.com/riverqueue/river", "lockmw/rivermw github.com/jackc/pgx/v5",
		"lockmw/fencedb github.com/jackc/pgx/v5", "lockmw/fencedb/fencedpgx " + module + "lockmw",
		"lockmw/httpmw google.golang.org/grpc", "lockmw github.com/robfig/cron/v3",
		"lockmw/ginmw " + module + "lockmw/once", "lockmw/httpmw github.com/gin-gonic/gin",
		"lockmw github.com/felixge/httpsnoop", "lockmw/once/sqlrecord github.com/jackc/pgx/v5/stdlib",
		"cmd/lockbeat/internal/connect " + module + "cmd/lockbeat/internal/cli",
		"cmd/lockbeat/internal/guard " + module + "renewer/redisstore",
		"cmd/lockbeat " + module + "renewer", "cmd/lockbeat/internal/run " + module + "lockmw",
		"renewer github.com/spf13/cobra", "lockmw net/http", "renewer log", "renewer math/rand",
	} {
		name, imported, _ := strings.Cut(broken, " ")
		require.NotEmpty(t, forbids(name, imported, false), broken)
	}
	for _, broken := range []string{
		"lockmw " + module + "tracing", "lockmw/httpmw github.com/go-chi/chi/v5",
		"lockmw/cronmw " + module + "testutil/embedded", "lockmw github.com/hibiken/asynq",
		"renewer go.opentelemetry.io/otel/trace",
		"tracing go.opentelemetry.io/otel/sdk/trace", "lockmw google.golang.org/grpc",
		"renewer/redisstore github.com/alicebob/miniredis/v2",
		"lockmw/once/sqlrecord modernc.org/sqlite",
	} {
		name, imported, _ := strings.Cut(broken, " ")
		require.NotEmpty(t, forbids(name, imported, true), "in a test: "+broken)
	}
}

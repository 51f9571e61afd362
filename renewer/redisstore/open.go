package redisstore

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/internal/deployment"
	"github.com/lockbeat/lockbeat/renewer"
)

// Deployment says where one Redis deployment is, for [Open], for other clients
// of the same Redis, and for asynq (asynqmw.RedisOpt). [FromEnv] and [FromURL]
// make one, which you may change.
type Deployment struct {
	// Option reaches it. [Open] completes a copy of it by [ClientOption];
	// rueidis.NewClient makes a client for other work of it as it is.
	Option rueidis.ClientOption
	// Cluster says that the servers are a cluster; [Open] refuses others. With
	// false they are asked whether they are, unless Option.ForceSingleClient is
	// set. asynq does not ask.
	Cluster bool
	// Prefix is before the keys of all locks: see the function [Prefix].
	// Default [DefaultPrefix].
	Prefix string
	// TTL is that of the shortest leases: see [ClientOption]. [renewer.New]
	// refuses a shorter one in its Config. Default [renewer.DefaultTTL].
	TTL time.Duration

	warnings []string
}

// Format has package fmt print the hosts, and no password.
func (d Deployment) Format(w fmt.State, _ rune) {
	_, _ = io.WriteString(w, "Redis at "+strings.Join(d.Option.InitAddress, ","))
}

// FromEnv reads where Redis is from the environment:
//
//	LOCKBEAT_URL                     redis://user:password@host:6379/db; rediss:// for TLS;
//	                                 default redis://127.0.0.1:6379
//	LOCKBEAT_PASSWORD_FILE           a file with the password
//	LOCKBEAT_CLUSTER                 true or false; default: the server is asked
//	LOCKBEAT_SENTINEL_MASTER         the primary's name; the hosts are Sentinels
//	LOCKBEAT_SENTINEL_USER           the user of the Sentinels
//	LOCKBEAT_SENTINEL_PASSWORD_FILE  a file with their password
//	LOCKBEAT_TLS_CA                  a file with the certificates to trust
//	LOCKBEAT_TLS_CERT                a file with the client's certificate
//	LOCKBEAT_TLS_KEY                 a file with its key
//	LOCKBEAT_TLS_SERVER_NAME         the name in the server's certificate
//	LOCKBEAT_PREFIX                  what the keys begin with
//
// The error is [renewer.ErrConfig] and names every variable that is wrong. One
// that begins with LOCKBEAT_ and is not known is wrong, too, and so is a file
// that another user could write. Passwords and the client's certificate are
// read again for each connection: a changed one needs no restart. No error has
// a password in it.
func FromEnv() (Deployment, error) {
	if err := deployment.CheckNames(os.Environ()); err != nil {
		return Deployment{}, err
	}
	return described(deployment.FromLookup(os.LookupEnv))
}

// FromURL takes the URL of LOCKBEAT_URL, and no variable; see [FromEnv]:
//
//	redis://user:password@host:6379/db
//	rediss://node1,node2,node3?cluster=true
//	redis://user:password@sentinel1,sentinel2/db?sentinel_master=name
//	unix://user:password@/path/of/the/socket?db=1
//
// valkey and valkeys stand for redis and rediss. Of rueidis' own parameters it
// takes protocol, dial_timeout, write_timeout, client_name, client_cache and
// max_retries. For what else a URL of rueidis' says, give [Open] a
// Deployment{Option: rueidis.MustParseURL(url)}.
//
// Encode %, /, ? and # in a user and a password, and : in a user. TLS trusts
// the system's certificates; for others set Option.TLSConfig. The error is
// [renewer.ErrConfig] and shows nothing of the URL.
func FromURL(url string) (Deployment, error) { return described(deployment.FromURL(url)) }

func described(s deployment.Settings, err error) (Deployment, error) {
	return Deployment{
		Option: s.Option, Cluster: s.Cluster, Prefix: s.Prefix, warnings: s.Warnings,
	}, err
}

// Open connects to a deployment and returns a store on a client of its own,
// which [Store.Close] closes, too. Beside the connection it does what [New]
// does, with the same options; it sets [WriteTimeout] itself. It returns when
// ctx ends, which has no effect on the store later.
//
// The error is [renewer.ErrConfig] if d or an option is wrong or the server
// refuses the password, [renewer.ErrUnavailable] if no server answers, what
// [New] returns if the server refuses what locks need, or ctx's cause. Then
// nothing is left open.
func Open(ctx context.Context, d Deployment, opts ...Option) (*Store, error) {
	option, err := ClientOption(d.Option, cmp.Or(d.TTL, renewer.DefaultTTL))
	if err != nil {
		return nil, err
	}
	if d.Prefix != "" {
		opts = slices.Concat([]Option{Prefix(d.Prefix)}, opts)
	}
	c, faults := configure(append(slices.Clip(opts), WriteTimeout(option.ConnWriteTimeout)))
	if len(option.InitAddress) == 0 {
		faults = append(faults, "Deployment.Option.InitAddress: is empty; take the Deployment "+
			"from FromEnv or FromURL, and check its error")
	}
	if err := faulty(faults); err != nil {
		return nil, err
	}
	for _, text := range d.warnings {
		c.log.LogAttrs(ctx, slog.LevelWarn, "lockbeat: "+text)
	}
	c.secrets = deployment.SecretsOf(&option)
	client, err := deployment.Dial(ctx, option, d.Cluster)
	if err != nil {
		return nil, err
	}
	c.leastTTL, c.closeClient = cmp.Or(d.TTL, renewer.DefaultTTL), sync.OnceFunc(client.Close)
	return opened(start(ctx, client, c))
}

package connect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"time"

	"github.com/redis/rueidis"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// Deployment is what the variables lead to, for a command that looks at the servers themselves. Its
// methods may be called concurrently.
type Deployment struct {
	// Client is connected to it. The caller closes it.
	Client rueidis.Client
	// Master is how the Sentinels call the primary; "" where there are none.
	Master string
	// Prefix is what the keys begin with.
	Prefix string

	option rueidis.ClientOption
}

// Dial connects to Redis, and makes no store. Errors are as for [OpenFor].
func Dial(ctx context.Context) (*Deployment, error) { return dialFor(ctx, renewer.DefaultTTL) }

func dialFor(ctx context.Context, ttl time.Duration) (*Deployment, error) {
	v := readVariables(ctx)
	option, cluster := v.option()
	if len(v.faults) > 0 {
		return nil, wrong(strings.Join(v.faults, "; "))
	}
	option, err := redisstore.ClientOption(option, ttl)
	if err != nil {
		return nil, err
	}
	client, err := dial(ctx, option)
	if err != nil {
		return nil, err
	}
	if cluster == yes && client.Mode() != rueidis.ClientModeCluster {
		client.Close()
		return nil, wrong(clusterVariable + ": is true, but the server at " +
			strings.Join(option.InitAddress, ",") + " is none of a cluster")
	}
	d := &Deployment{
		Client: client, Master: option.Sentinel.MasterSet, Prefix: redisstore.DefaultPrefix,
		option: option,
	}
	if prefix, ok := v.values[prefixVariable]; ok {
		d.Prefix = prefix
	}
	return d, nil
}

// Store makes a store on the deployment, which the caller closes before the client.
func (d *Deployment) Store(options ...redisstore.Option) (*redisstore.Store, error) {
	options = append(options, redisstore.Prefix(d.Prefix),
		redisstore.WriteTimeout(d.option.ConnWriteTimeout))
	store, err := redisstore.New(d.Client, options...)
	if errors.Is(err, renewer.ErrConfig) { // nothing but the prefix is the user's
		err = fmt.Errorf("%s: %w", prefixVariable, err)
	}
	return store, err
}

// Addresses are those that the variables name.
func (d *Deployment) Addresses() []string { return d.option.InitAddress }

// Sentinel connects to one of the Sentinels. The caller closes the client.
func (d *Deployment) Sentinel(ctx context.Context, address string) (rueidis.Client, error) {
	option := rueidis.ClientOption{
		InitAddress: []string{address}, ForceSingleClient: true, DisableCache: true,
		Username: d.option.Sentinel.Username, Password: d.option.Sentinel.Password,
		TLSConfig: d.option.Sentinel.TLSConfig, Dialer: d.option.Sentinel.Dialer,
		ConnWriteTimeout: d.option.ConnWriteTimeout,
	}
	if host, _, err := net.SplitHostPort(address); err == nil && option.TLSConfig != nil &&
		option.TLSConfig.ServerName == "" {
		option.TLSConfig = option.TLSConfig.Clone()
		option.TLSConfig.ServerName = host
	}
	return dial(ctx, option)
}

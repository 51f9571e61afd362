package asynqmw

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/lockbeat/lockbeat/internal/deployment"
	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// RedisOpt is how asynq reaches a deployment, that of the locks or another: its
// hosts, users, passwords, database and TLS. Time-outs are asynq's own. It asks
// no server, so a cluster has to be said (Deployment.Cluster). The error is
// [renewer.ErrConfig] and names each field with which asynq can do nothing.
func RedisOpt(d redisstore.Deployment) (asynq.RedisConnOpt, error) {
	o, s := d.Option, d.Option.Sentinel
	var faults []string
	for _, f := range []struct {
		is   bool
		text string
	}{
		{len(o.InitAddress) == 0, "InitAddress: is empty; take the Deployment from " +
			"redisstore.FromEnv or FromURL, and check its error"},
		{len(o.InitAddress) > 1 && !d.Cluster && s.MasterSet == "", "InitAddress: has several " +
			"hosts; set Deployment.Cluster or Sentinel.MasterSet"},
		{d.Cluster && s.MasterSet != "", "Sentinel.MasterSet: is set, and Deployment.Cluster is " +
			"true; a cluster has no Sentinels"},
		{d.Cluster && o.SelectDB != 0, "SelectDB: a cluster has no database but 0"},
		{s.MasterSet != "" && s.TLSConfig != o.TLSConfig, "Sentinel.TLSConfig: asynq has one " +
			"TLSConfig for Sentinels and servers; set the same"},
		{!deployment.DialsPlainly(o), "DialFn, DialCtxFn: asynq dials by itself; leave them unset"},
	} {
		if f.is {
			faults = append(faults, f.text)
		}
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("%w: Deployment.Option: %s; or write asynq's options by hand",
			renewer.ErrConfig, strings.Join(faults, "; "))
	}
	opt := plainOpt(d)
	if login := deployment.Login(o); login != nil {
		return askingOpt{opt, login}, nil
	}
	return opt, nil
}

// plainOpt is asynq's own, with the users and the passwords of now.
func plainOpt(d redisstore.Deployment) asynq.RedisConnOpt {
	o, s := d.Option, d.Option.Sentinel
	secured := o.TLSConfig.Clone() // nil of nil
	switch {
	case s.MasterSet != "":
		return asynq.RedisFailoverClientOpt{
			MasterName: s.MasterSet, SentinelAddrs: slices.Clone(o.InitAddress),
			SentinelUsername: s.Username, SentinelPassword: s.Password,
			Username: o.Username, Password: o.Password, DB: o.SelectDB, TLSConfig: secured,
		}
	case d.Cluster:
		return asynq.RedisClusterClientOpt{
			Addrs: slices.Clone(o.InitAddress), Username: o.Username, Password: o.Password,
			TLSConfig: secured,
		}
	default:
		network := "tcp"
		if deployment.IsSocket(o.InitAddress[0]) {
			network = "unix"
		}
		return asynq.RedisClientOpt{
			Network: network, Addr: o.InitAddress[0], Username: o.Username, Password: o.Password,
			DB: o.SelectDB, TLSConfig: secured,
		}
	}
}

// askingOpt asks for the user and the password for each connection: asynq's own
// know one.
type askingOpt struct {
	plain asynq.RedisConnOpt
	login func(context.Context) (user, password string, err error)
}

// MakeRedisClient implements [asynq.RedisConnOpt] as the plain one does.
func (a askingOpt) MakeRedisClient() any {
	switch o := a.plain.(type) {
	case asynq.RedisFailoverClientOpt:
		return redis.NewFailoverClient(&redis.FailoverOptions{
			MasterName: o.MasterName, SentinelAddrs: o.SentinelAddrs,
			SentinelUsername: o.SentinelUsername, SentinelPassword: o.SentinelPassword,
			CredentialsProviderContext: a.login, DB: o.DB, TLSConfig: o.TLSConfig,
		})
	case asynq.RedisClusterClientOpt:
		return redis.NewClusterClient(&redis.ClusterOptions{
			Addrs: o.Addrs, CredentialsProviderContext: a.login, TLSConfig: o.TLSConfig,
		})
	case asynq.RedisClientOpt:
		return redis.NewClient(&redis.Options{
			Network: o.Network, Addr: o.Addr, CredentialsProviderContext: a.login, DB: o.DB,
			TLSConfig: o.TLSConfig,
		})
	default:
		return o.MakeRedisClient()
	}
}

package asynqmw

import (
	"fmt"
	"slices"
	"strings"

	"github.com/hibiken/asynq"

	"github.com/lockbeat/lockbeat/renewer"
	"github.com/lockbeat/lockbeat/renewer/redisstore"
)

// RedisOpt returns the options by which asynq reaches a deployment, that of the locks or another:
// an [asynq.RedisClientOpt], [asynq.RedisFailoverClientOpt] or [asynq.RedisClusterClientOpt] with
// its hosts, users, passwords, database and TLS. Time-outs are asynq's own. It asks no server, so a
// cluster has to be said (LOCKBEAT_CLUSTER, or Deployment.Cluster).
//
// The error is [renewer.ErrConfig] and names each field of the deployment with which asynq can do
// nothing. RedisOpt may be called concurrently.
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
		{o.DialFn != nil || o.DialCtxFn != nil, "DialFn, DialCtxFn: asynq dials by itself; leave " +
			"them unset"},
		{o.AuthCredentialsFn != nil, "AuthCredentialsFn: asynq knows one password; leave it unset"},
	} {
		if f.is {
			faults = append(faults, f.text)
		}
	}
	if len(faults) > 0 {
		return nil, fmt.Errorf("%w: Deployment.Option: %s; or write asynq's options by hand",
			renewer.ErrConfig, strings.Join(faults, "; "))
	}
	secured := o.TLSConfig.Clone() // nil of nil
	switch {
	case s.MasterSet != "":
		return asynq.RedisFailoverClientOpt{
			MasterName: s.MasterSet, SentinelAddrs: slices.Clone(o.InitAddress),
			SentinelUsername: s.Username, SentinelPassword: s.Password,
			Username: o.Username, Password: o.Password, DB: o.SelectDB, TLSConfig: secured,
		}, nil
	case d.Cluster:
		return asynq.RedisClusterClientOpt{
			Addrs: slices.Clone(o.InitAddress), Username: o.Username, Password: o.Password,
			TLSConfig: secured,
		}, nil
	default:
		return asynq.RedisClientOpt{
			Addr: o.InitAddress[0], Username: o.Username, Password: o.Password, DB: o.SelectDB,
			TLSConfig: secured,
		}, nil
	}
}

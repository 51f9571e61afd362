package asking

import (
	"github.com/lockbeat/lockbeat/internal/contract"
	"github.com/lockbeat/lockbeat/renewer/store"
)

// mostShards bounds the shards that are told apart. The store numbers them, maybe at random; so
// many cost about 12 MB.
const mostShards = 1024

// Shards tells the shards of a store apart.
type Shards struct {
	sharded contract.Sharded // nil: the store has one
}

// ShardsOf returns those of a store.
func ShardsOf(s store.Store) Shards {
	sharded, _ := s.(contract.Sharded)
	return Shards{sharded}
}

// Of is the shard of a name as the store now sees it, below mostShards. It calls the store.
func (s Shards) Of(name string) int {
	if s.sharded == nil {
		return 0
	}
	return int(uint(s.sharded.Shard(name)) % mostShards)
}

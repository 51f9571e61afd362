package renewer

// mostShards bounds the shards that are told apart. The store numbers them, maybe at random; so
// many cost about 12 MB.
const mostShards = 1024

// shards tells the shards of a store apart.
type shards struct {
	sharded Sharded // nil: the store has one
}

func shardsOf(store Store) shards {
	sharded, _ := store.(Sharded)
	return shards{sharded}
}

// of is the shard of a name as the store now sees it, below mostShards. It calls the store.
func (s shards) of(name string) int {
	if s.sharded == nil {
		return 0
	}
	return int(uint(s.sharded.Shard(name)) % mostShards)
}

// Package connect opens the store of locks from the environment or a file,
// never from arguments, which every user of a machine can read:
//
//	store, err := connect.Open(ctx)
//	defer store.Close()
//
// Errors are those of package redisstore.
package connect

// Package connect opens the store of locks from the environment or a file, never from arguments,
// which every user of a machine can read:
//
//	store, client, err := connect.Open(ctx)
//	defer client.Close()
//	defer store.Close()
//
// An error that is [renewer.ErrConfig] names each variable that is wrong; one that is
// [renewer.ErrUnavailable] means that Redis does not answer. None has a password in it,
// nor the text of a URL.
package connect

// Package deployment says where a Redis deployment is, from variables or from a
// URL, and connects to it. It is for package redisstore and for the command,
// which reads a file besides.
//
// An error that is [renewer.ErrConfig] names each variable that is wrong, or
// the URL; one that is [renewer.ErrUnavailable] means that Redis does not
// answer. None has a password in it, nor the text of a URL.
package deployment

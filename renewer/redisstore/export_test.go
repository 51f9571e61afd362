package redisstore

import (
	"github.com/redis/rueidis"
)

const (
	ProbeName = probeName
	MaxPart   = maxPart
	MaxExact  = maxExact
	MaxKeys   = maxKeys
	Rights    = rights
)

var (
	LeaseKey     = leaseKey
	LockKeys     = lockKeys
	EncodeHolder = encodeHolder
	DecodeValue  = decodeValue
	ErrorText    = errorText
	ReadGrant    = readGrant
	ReadAnswers  = readAnswers
	ErrClosed    = errClosed
)

// Texts of the scripts, by file.
var Scripts = map[string]string{
	"acquire.lua": acquireText, "renew.lua": renewText, "release.lua": releaseText, "probe.lua": probeText,
}

// WrapError is what an answer of the server becomes for a store on one server, or on a cluster.
func WrapError(cluster bool, op string, err error) error {
	return (&Store{prefix: DefaultPrefix, cluster: cluster}).wrap(op, err)
}

// Definite tells whether New would refuse a server that answers with text.
func Definite(text string) bool { return (&Store{}).definite(text) }

// OneKeyAScript makes the store send what it sends to a cluster.
func (s *Store) OneKeyAScript() { s.perCall = 1 }

// Client returns the caller's client.
func (s *Store) Client() rueidis.Client { return s.client }

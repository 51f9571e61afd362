// Package grpcmw runs gRPC calls under locks that their handlers never name.
package grpcmw

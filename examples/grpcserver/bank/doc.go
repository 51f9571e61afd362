// Package bank is the bank's service, generated from bank.proto by protoc with
// protoc-gen-go v1.36.12 and protoc-gen-go-grpc v1.6.2.
package bank

//go:generate protoc --go_out=. --go_opt=paths=source_relative --go-grpc_out=. --go-grpc_opt=paths=source_relative bank.proto

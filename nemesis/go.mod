module github.com/lockbeat/lockbeat/nemesis

go 1.26.0

require (
	github.com/hibiken/asynq v0.26.0
	github.com/lockbeat/lockbeat v0.0.0
	github.com/lockbeat/lockbeat/lockmw/asynq v0.0.0
	github.com/lockbeat/lockbeat/lockmw/grpcmw v0.0.0
	github.com/redis/rueidis v1.0.79
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.49.0
	google.golang.org/genproto/googleapis/rpc v0.0.0-20261019180522-ce908d29299b
	google.golang.org/grpc v1.85.0
)

require (
	github.com/cespare/xxhash/v2 v2.3.0 // indirect
	github.com/dgryski/go-rendezvous v0.0.0-20200823014737-9f7001d12a5f // indirect
	github.com/felixge/httpsnoop v1.1.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	github.com/redis/go-redis/v9 v9.14.1 // indirect
	github.com/robfig/cron/v3 v3.0.1 // indirect
	github.com/spf13/cast v1.10.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/net v0.60.0 // indirect
	golang.org/x/text v0.42.0 // indirect
	golang.org/x/time v0.15.0 // indirect
	google.golang.org/protobuf v1.36.12 // indirect
)

replace (
	github.com/lockbeat/lockbeat => ..
	github.com/lockbeat/lockbeat/lockmw/asynq => ../lockmw/asynq
	github.com/lockbeat/lockbeat/lockmw/grpcmw => ../lockmw/grpcmw
)

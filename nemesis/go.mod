module github.com/lockbeat/lockbeat/nemesis

go 1.26.0

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/lockbeat/lockbeat v0.0.0
	github.com/redis/rueidis v1.0.79
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
	golang.org/x/sys v0.49.0
)

require (
	github.com/felixge/httpsnoop v1.1.0 // indirect
	github.com/google/uuid v1.6.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
)

replace github.com/lockbeat/lockbeat => ..

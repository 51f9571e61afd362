module github.com/lockbeat/lockbeat/testutil/embedded

go 1.26.0

require (
	github.com/alicebob/miniredis/v2 v2.40.0
	github.com/lockbeat/lockbeat v0.0.0
	github.com/redis/rueidis v1.0.79
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
)

require (
	github.com/yuin/gopher-lua v1.1.1 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/lockbeat/lockbeat => ../..

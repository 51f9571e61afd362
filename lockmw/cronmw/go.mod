module github.com/lockbeat/lockbeat/lockmw/cronmw

go 1.26.0

require (
	github.com/go-co-op/gocron/v2 v2.21.2
	github.com/lockbeat/lockbeat v0.0.0
	github.com/robfig/cron/v3 v3.0.1
	github.com/stretchr/testify v1.12.1
	go.uber.org/goleak v1.3.0
)

require (
	github.com/google/uuid v1.6.0 // indirect
	github.com/jonboulle/clockwork v0.5.0 // indirect
	go.yaml.in/yaml/v3 v3.0.5 // indirect
	golang.org/x/sys v0.49.0 // indirect
)

replace github.com/lockbeat/lockbeat => ../..

package page_test

import (
	"slices"
	"testing"
	"time"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/stretchr/testify/require"
)

// every is the time between two scrapes.
const every = 30 * time.Second

// scrapes are what Prometheus has read of all processes.
type scrapes map[string]*series

type series struct {
	labels labels.Labels
	chunk  chunkenc.Chunk
}

// add keeps the metrics of a process. None of ours ends before that does.
func (s scrapes) add(t *testing.T, process string, families []*dto.MetricFamily) {
	t.Helper()
	now := time.Now().UnixMilli()
	found, err := expfmt.ExtractSamples(&expfmt.DecodeOptions{}, families...)
	require.NoError(t, err)
	for _, f := range found {
		f.Metric["job"], f.Metric["instance"] = "shop", model.LabelValue(process)
		key := f.Metric.String()
		if s[key] == nil {
			all := make(map[string]string, len(f.Metric))
			for name, v := range f.Metric {
				all[string(name)] = string(v)
			}
			s[key] = &series{labels: labels.FromMap(all), chunk: chunkenc.NewXORChunk()}
		}
		to, err := s[key].chunk.Appender()
		require.NoError(t, err)
		to.Append(now, float64(f.Value))
	}
}

// ask has Prometheus' own engine evaluate an expression for each scrape of a time.
func (s scrapes) ask(
	t *testing.T, engine *promql.Engine, expr string, from, to time.Time,
) promql.Matrix {
	t.Helper()
	query, err := engine.NewRangeQuery(t.Context(), s, nil, expr, from, to, every)
	require.NoError(t, err, expr)
	defer query.Close()
	result := query.Exec(t.Context())
	require.NoError(t, result.Err, expr)
	matrix, err := result.Matrix()
	require.NoError(t, err, expr)
	return matrix
}

// Querier finds series for the engine.
func (s scrapes) Querier(int64, int64) (storage.Querier, error) {
	return &storage.MockQuerier{SelectMockFunction: func(
		_ bool, _ *storage.SelectHints, matchers ...*labels.Matcher,
	) storage.SeriesSet {
		set := &seriesSet{SeriesSet: storage.EmptySeriesSet()}
		for _, one := range s {
			if !slices.ContainsFunc(matchers, func(m *labels.Matcher) bool {
				return !m.Matches(one.labels.Get(m.Name))
			}) {
				set.rest = append(set.rest, one)
			}
		}
		return set
	}}, nil
}

// seriesSet goes through series that were found.
type seriesSet struct {
	storage.SeriesSet // for errors and warnings, of which there are none

	at   *series
	rest []*series
}

func (s *seriesSet) Next() bool {
	if len(s.rest) == 0 {
		return false
	}
	s.at, s.rest = s.rest[0], s.rest[1:]
	return true
}

func (s *seriesSet) At() storage.Series {
	return &storage.SeriesEntry{Lset: s.at.labels, SampleIteratorFn: s.at.chunk.Iterator}
}

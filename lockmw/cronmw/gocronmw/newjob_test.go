package gocronmw_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/lockbeat/lockbeat/lockmw/cronmw/gocronmw"
	"github.com/lockbeat/lockbeat/renewer"
)

// at makes times of a day, in hours, minutes and seconds.
func at(times ...[3]uint) gocron.AtTimes {
	all := make([]gocron.AtTime, len(times))
	for i, a := range times {
		all[i] = gocron.NewAtTime(a[0], a[1], a[2])
	}
	return gocron.NewAtTimes(all[0], all[1:]...)
}

func TestRefusedJobs(t *testing.T) {
	t.Parallel()
	soon := time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		definition gocron.JobDefinition
		grace      time.Duration
		want       string // "" if it is not
	}{
		"crontab":           {gocron.CronJob("* * * * *", false), minute + 1, "ticks 1m0s apart"},
		"crontab that fits": {gocron.CronJob("TZ=Asia/Tokyo * * * * *", false), minute, ""},
		"crontab with seconds": {
			gocron.CronJob("0,40 * * * * *", true), 21 * time.Second,
			"ticks 20s apart",
		},
		"duration":             {gocron.DurationJob(time.Second), 2 * time.Second, "ticks 1s apart"},
		"duration, by default": {gocron.DurationJob(time.Second), 0, ""},
		"random": {
			gocron.DurationRandomJob(minute, time.Hour), 0,
			"run the scheduler with an Elector",
		},
		"daily, over midnight": {
			gocron.DailyJob(1,
				at([3]uint{23, 59, 30}, [3]uint{12, 0, 0}, [3]uint{0, 0, 30})), 2 * minute,
			"ticks 1m0s apart",
		},
		"daily that fits": {gocron.DailyJob(1, at([3]uint{12, 0, 0})), 24 * time.Hour, ""},
		"weekly": {
			gocron.WeeklyJob(1, gocron.NewWeekdays(time.Monday),
				at([3]uint{1, 0, 0}, [3]uint{1, 1, 0})), 2 * minute, "ticks 1m0s apart",
		},
		"monthly": {
			gocron.MonthlyJob(1, gocron.NewDaysOfTheMonth(1),
				at([3]uint{1, 0, 0}, [3]uint{1, 1, 0})), 2 * minute, "ticks 1m0s apart",
		},
		"once": {gocron.OneTimeJob(gocron.OneTimeJobStartDateTime(soon)), time.Hour, ""},
		"thrice": {
			gocron.OneTimeJob(gocron.OneTimeJobStartDateTimes(soon, soon.Add(time.Hour),
				soon.Add(minute))), 2 * minute, "ticks 1m0s apart",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			inBubble(t, func(t *testing.T, b *bed) {
				s := b.scheduler()
				l := b.locker("a", gocronmw.Config{Grace: c.grace})
				job, err := l.NewJob(s, c.definition, b.task("a"), gocron.WithName("job"))
				if c.want == "" {
					require.NoError(t, err)
					assert.Equal(t, "job", job.Name())
					return
				}
				require.ErrorIs(t, err, renewer.ErrConfig)
				require.ErrorContains(t, err, `job "job": `)
				require.ErrorContains(t, err, c.want)
				assert.Nil(t, job)
				synctest.Wait()
				assert.Empty(t, s.Jobs())
			})
		})
	}
}

// One that a running scheduler starts at once does not run, if it is refused.
func TestARefusedJobDoesNotRun(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		s := b.scheduler()
		s.Start()
		_, err := b.locker("a", gocronmw.Config{Grace: 2 * minute}).NewJob(s,
			gocron.DurationJob(minute), b.task("a"),
			gocron.WithStartAt(gocron.WithStartImmediately()), b.log.told())
		require.ErrorIs(t, err, renewer.ErrConfig)
		elapse(time.Hour)
		ran, _ := b.log.runs(nil)
		assert.Empty(t, ran)
	})
}

func TestJobsStartedAtOnce(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		s := b.scheduler()
		s.Start()
		_, err := b.locker("a", gocronmw.Config{}).NewJob(s, gocron.DurationJob(minute),
			b.task("a"),
			gocron.WithStartAt(gocron.WithStartImmediately()), b.log.told())
		require.NoError(t, err)
		elapse(minute + time.Second)
		synctest.Wait()
		ran, _ := b.log.runs(nil)
		assert.Len(t, ran, 2)
	})
}

func TestNamesAreOnceALocker(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		s, l := b.scheduler(), b.locker("a", gocronmw.Config{})
		add := func(name string) error {
			_, err := l.NewJob(s, gocron.CronJob("* * * * *", false), b.task("a"),
				gocron.WithName(name))
			return err
		}
		require.NoError(t, add("job"))
		require.NoError(t, add("another"))
		err := add("job")
		require.ErrorIs(t, err, renewer.ErrConfig)
		require.ErrorContains(t, err, "this process has a job of this name already")
		synctest.Wait()
		assert.Len(t, s.Jobs(), 2)
		s.RemoveByTags("none")
		l.Forget("job")
		require.NoError(t, add("job"))
	})
}

func TestGocronsOwnRefusals(t *testing.T) {
	t.Parallel()
	inBubble(t, func(t *testing.T, b *bed) {
		_, err := b.locker("a", gocronmw.Config{}).NewJob(b.scheduler(),
			gocron.CronJob("now and then", false), b.task("a"))
		require.ErrorIs(t, err, gocron.ErrCronJobParse)
	})
	_, err := gocronmw.NewLocker(nil, gocronmw.Config{})
	require.ErrorIs(t, err, renewer.ErrConfig)
	require.ErrorContains(t, err, "it needs a keeper: renewer.New")
	inBubble(t, func(t *testing.T, b *bed) {
		_, err := gocronmw.NewLocker(b.keeper("a"), gocronmw.Config{Grace: -time.Second})
		require.ErrorIs(t, err, renewer.ErrConfig)
		require.ErrorContains(t, err, "Grace is -1s")
	})
}

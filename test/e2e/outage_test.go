package e2e_test

import (
	"testing"
	"time"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// An outage is as long as several windows of the owners that it meets.
const (
	paused = 20 * time.Second
	down   = 10 * time.Second

	outageTTL = 3 * time.Second
	keepEvery = time.Second
)

// What the service's clock counts of a time in which it was stopped, or could
// not commit; and how late an end may be.
const (
	countsStopped     = 500 * time.Millisecond
	countsUncommitted = 2 * time.Second
	late              = 2 * time.Second // for a machine that is busy with other tests
	lateOfDead        = 5 * time.Second // until a replica is known to be dead
)

var transitions = []time.Duration{0, time.Second}

// TestOutagesLoseNoOwner has four services struck at the same time: their own
// process, or the etcd that they use, is stopped or killed.
func TestOutagesLoseNoOwner(t *testing.T) {
	outages := []*outage{programKilled(t), etcdKilled(t), programPaused(t), etcdPaused(t)}
	for _, o := range outages {
		o.begins()
	}
	for _, o := range outages { // those that end first come first
		time.Sleep(time.Until(o.began.Add(o.lasts)))
		o.ends()
	}
	for _, o := range outages {
		t.Run(o.name, o.lostNobody)
	}
}

// outage is a fault, and who owns meanwhile: those who guard whatever happens,
// and those who do not guard again.
type outage struct {
	name       string
	t          *testing.T
	replica    *harness.Replica
	lasts      time.Duration
	begin, end func()
	keep, gone []*keeper
	guards     []int // of those who keep, before the end

	// Between these two a silent owner must be freed.
	early, late func(k *keeper) time.Time

	began, ended, back time.Time // back: certainly over
}

func programPaused(t *testing.T) *outage {
	r := harness.Start(t, "--data-dir="+harness.Dir(t))
	o := &outage{name: "program paused", t: t, replica: r, lasts: paused, begin: r.Pause, end: r.Resume}
	o.early = func(k *keeper) time.Time { return o.ended.Add(k.window() - o.began.Sub(k.sent) - countsStopped) }
	o.late = func(k *keeper) time.Time { return o.back.Add(k.window() + late) }
	return o.prepared()
}

func programKilled(t *testing.T) *outage {
	r := harness.Start(t, "--data-dir="+harness.Dir(t))
	o := &outage{name: "program killed", t: t, replica: r, lasts: down, begin: r.Kill, end: func() { r.Again() }}
	// A new process counts from its start.
	o.early = func(k *keeper) time.Time { return o.ended.Add(k.window()) }
	o.late = func(k *keeper) time.Time { return o.back.Add(k.window() + lateOfDead + late) }
	return o.prepared()
}

func etcdPaused(t *testing.T) *outage {
	m := harness.StartEtcd(t, 1).Members[0]
	return ofEtcd(t, &outage{name: "etcd paused", lasts: paused, begin: m.Pause, end: m.Resume}, m)
}

func etcdKilled(t *testing.T) *outage {
	m := harness.StartEtcd(t, 1).Members[0]
	return ofEtcd(t, &outage{name: "etcd killed", lasts: down, begin: m.Kill, end: func() { m.Again() }}, m)
}

func ofEtcd(t *testing.T, o *outage, m *harness.Member) *outage {
	o.t, o.replica = t, harness.Start(t, "--etcd="+m.Addr)
	o.early = func(k *keeper) time.Time { return o.ended.Add(k.window() - o.began.Sub(k.sent) - countsUncommitted) }
	o.late = func(k *keeper) time.Time { return o.back.Add(k.window() + lateOfDead + late) }
	return o.prepared()
}

// prepared has owners guard already.
func (o *outage) prepared() *outage {
	o.t.Helper()
	for _, transition := range transitions {
		for range 3 {
			k := newKeeper(o.t, o.replica, transition)
			k.keeps(o.t)
			o.keep = append(o.keep, k)
		}
	}
	return o
}

// begins has the outage come just after the last guard of those who do not
// guard again.
func (o *outage) begins() {
	o.t.Helper()
	for _, transition := range transitions {
		k := newKeeper(o.t, o.replica, transition)
		if !k.guard(o.t.Context()) {
			o.t.Fatalf("%s: cannot guard: %s", o.name, k.lost())
		}
		o.gone = append(o.gone, k)
	}
	o.begin()
	o.began = time.Now()
}

func (o *outage) ends() {
	for _, k := range o.keep {
		o.guards = append(o.guards, k.count())
	}
	o.ended = time.Now()
	o.end()
	o.back = time.Now()
	for _, k := range o.gone {
		k.watches(o.t)
	}
}

// lostNobody: whoever guarded again still owns, with the same fencing token,
// and whoever did not is freed when its windows are over.
func (o *outage) lostNobody(t *testing.T) {
	for i, k := range o.keep {
		k.hasGuarded(t, o.guards[i]+3)
	}
	for _, k := range o.gone {
		k.hasEnded(t, o.early(k), o.late(k))
	}
}

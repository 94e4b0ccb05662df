package operate_test

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// scale measures what is in an etcd.
type scale struct {
	t *testing.T
	m *member
	c *clientv3.Client
}

// inUse returns the bytes of etcd's file that are in use.
func (s *scale) inUse() int64 {
	s.t.Helper()
	status, err := s.c.Status(s.t.Context(), s.m.url())
	if err != nil {
		s.t.Fatal(err)
	}
	return status.DbSizeInUse
}

// each returns by how much one of n steps makes etcd larger.
func (s *scale) each(n int, step func(i int)) int64 {
	s.t.Helper()
	before := s.inUse()
	for i := range n {
		step(i)
	}
	return (s.inUse() - before) / int64(n)
}

// stored returns the bytes of keys and values under a prefix.
func (s *scale) stored(prefix string) int64 {
	s.t.Helper()
	resp, err := s.c.Get(s.t.Context(), "/holdfast/v1/"+prefix, clientv3.WithPrefix())
	if err != nil {
		s.t.Fatal(err)
	}
	n := 0
	for _, kv := range resp.Kvs {
		n += len(kv.Key) + len(kv.Value)
	}
	return int64(n)
}

// The page's numbers are no larger than twice what is measured, and no smaller
// than it.
func TestSizesOfThePage(t *testing.T) {
	t.Parallel()
	m := startMember(t, nil)
	r := harness.Start(t, "--etcd="+m.url())
	s := &scale{t: t, m: m, c: m.Client()}
	const n = 200
	mutex := func(i int) string { return fmt.Sprintf("deploy-service-%06d", i) }
	runner := on(t, r, "runner-0123456789")

	got := map[string]int64{}
	got["An acquire"] = s.each(n, func(i int) { runner.Acquires(mutex(i), long) })
	got["A guard"] = s.each(n, func(i int) { runner.calls(mutex(i), "guard", nil).Want(t, 200) })
	got["An ownership"] = s.stored("m/") / n
	got["A release"] = s.each(n, func(i int) { runner.Releases(mutex(i)) })
	got["An ended ownership, for two minutes"] = s.stored("settled/") / n

	runner.http.Must(t, "PUT", "/v1/mutexes/declared", map[string]any{"description": "One deployment at a time"}).Want(t, 201)
	runner.cycles("declared", 11)
	got["A declared mutex, with its history"] = s.stored("declared/") + s.stored("history/")
	runner.Acquires(mutex(0), long)
	runner.at(t, r).anew().Waits(mutex(0), 20*time.Second, nil)
	got["A place in line"] = s.stored("m/" + mutex(0) + "/line/")

	for what, size := range got {
		row := regexp.MustCompile(`(?m)^\| ` + regexp.QuoteMeta(what) + ` \| ([\d,]+) bytes \|`).FindStringSubmatch(page(t))
		if row == nil {
			t.Errorf("docs/operations.md does not say how large this is: %s, %d bytes", what, size)
			continue
		}
		said, err := strconv.ParseInt(regexp.MustCompile(",").ReplaceAllString(row[1], ""), 10, 64)
		if err != nil || size > said || said > 2*size {
			t.Errorf("%s: docs/operations.md says %d bytes, measured %d", what, said, size)
		}
	}
}

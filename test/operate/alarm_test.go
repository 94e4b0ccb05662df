package operate_test

import (
	"strings"
	"testing"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"github.com/holdfast-lock/holdfast/test/harness"
)

// With a corrupt alarm etcd takes no write. Nobody loses by it.
func TestCorruptAlarm(t *testing.T) {
	t.Parallel()
	m := startMember(t, nil)
	r := harness.Start(t, "--etcd="+m.url())
	alice := on(t, r, "alice").Keeps("deploy", windows(2*time.Second, time.Second))
	bob := on(t, r, "bob").Waits("deploy", 20*time.Second, nil)

	erin := on(t, r, "erin")
	erin.Acquires("erins", long)

	c := m.Client()
	raise := &pb.AlarmRequest{Action: pb.AlarmRequest_ACTIVATE, Alarm: pb.AlarmType_CORRUPT}
	if _, err := pb.NewMaintenanceClient(c.ActiveConnection()).Alarm(t.Context(), raise); err != nil {
		t.Fatal(err)
	}
	for began := time.Now(); time.Since(began) < 5*time.Second; time.Sleep(100 * time.Millisecond) {
		for _, verb := range []string{"acquire", "guard", "release"} {
			got := erin.calls("erins", verb, nil)
			if got.Status != 503 || got.Code() != "unavailable" || !strings.Contains(got.String("detail"), "corrupt") {
				t.Fatalf("%s: got %d %s, want 503, and that the data is corrupt", verb, got.Status, got.Raw)
			}
		}
		bob.hasNot()
	}
	bash(t, towards(t, m.url())+"etcdctl alarm disarm", t.TempDir())
	alice.owns(t)
	alice.stops()
	alice.p.Releases("deploy")
	if got := bob.Gets(); got <= alice.token {
		t.Errorf("got fencing token %d, want it larger than %d", got, alice.token)
	}
}

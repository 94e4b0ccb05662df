package etcdstore

import (
	"fmt"
	"testing"

	clientv3 "go.etcd.io/etcd/client/v3"

	"github.com/holdfast-lock/holdfast/internal/service"
)

// etcd allows 128 operations to a proposal. What has more alone is sent alone,
// for etcd to say so.
func TestWhatFitsIntoAProposal(t *testing.T) {
	for _, tt := range []struct {
		name  string
		sizes []int
		want  []int // how many go with each proposal
	}{
		{"small ones", []int{3, 4, 5, 2}, []int{4}},
		{"as many as fit", []int{100, 100, 60, 60}, []int{4}},
		{"one does not fit any more", []int{126, 126, 126}, []int{2, 1}},
		{"the largest goes with nothing", []int{1, 127, 128, 1}, []int{1, 1, 1, 1}},
		{"one too large is sent still", []int{300, 1, 1}, []int{1, 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			g := &together{}
			for i, size := range tt.sizes {
				cmps := make([]clientv3.Cmp, size)
				g.waiting = append(g.waiting, &ticket{t: &txn{mutex: service.Name(fmt.Sprint(i)), cmps: cmps}})
			}
			var got []int
			for len(g.waiting) > 0 {
				got = append(got, len(g.pick()))
			}
			if fmt.Sprint(got) != fmt.Sprint(tt.want) {
				t.Errorf("got proposals of %v, want %v", got, tt.want)
			}
		})
	}
}

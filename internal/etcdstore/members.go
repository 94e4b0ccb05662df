package etcdstore

import (
	"context"
	"slices"
	"sync"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// Members are asked whether they answer twice a second, so that one that falls
// silent is left out within a second.
const (
	askEvery   = 500 * time.Millisecond
	askTimeout = 500 * time.Millisecond
)

// members are etcd's as the client was told of them, each with a connection of
// its own to be asked alone.
type members struct {
	endpoints []string
	conns     []*grpc.ClientConn
}

// avoidSilent keeps the client to those members that answer and know a leader.
// One that is stopped, behind a black hole, or cut off from the others keeps
// its connections: left among the rest, it would swallow its share of all calls
// until each times out. When none answers, all are tried.
func (s *Store) avoidSilent() {
	all, err := s.dialEach()
	defer all.close()
	if err != nil {
		s.log.Error("etcd members are not watched", "cause", err)
		return
	}
	used := all.endpoints
	for s.sleep(jitter(askEvery)) {
		answer := all.answering(s.ctx)
		if len(answer) == 0 {
			answer = all.endpoints
		}
		if s.ctx.Err() != nil || slices.Equal(answer, used) {
			continue
		}
		s.log.Info("etcd members in use", "endpoints", answer, "of", len(all.endpoints))
		s.cli.SetEndpoints(answer...)
		used = answer
	}
}

func (s *Store) dialEach() (*members, error) {
	m := &members{endpoints: s.cli.Endpoints()}
	for _, ep := range m.endpoints {
		conn, err := s.cli.Dial(ep)
		if err != nil {
			return m, err
		}
		m.conns = append(m.conns, conn)
	}
	return m, nil
}

func (m *members) close() {
	for _, conn := range m.conns {
		_ = conn.Close()
	}
}

// answering returns those that answer, in order.
func (m *members) answering(ctx context.Context) []string {
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	fine := make([]bool, len(m.conns))
	var wg sync.WaitGroup
	for i, conn := range m.conns {
		wg.Go(func() { fine[i] = isOfUse(ctx, conn) })
	}
	wg.Wait()
	var list []string
	for i, ep := range m.endpoints {
		if fine[i] {
			list = append(list, ep)
		}
	}
	return list
}

// isOfUse asks one member.
func isOfUse(ctx context.Context, conn *grpc.ClientConn) bool {
	resp, err := pb.NewMaintenanceClient(conn).Status(ctx, &pb.StatusRequest{})
	switch status.Code(err) {
	case codes.OK:
		return resp.Leader != 0 && !resp.IsLearner
	case codes.PermissionDenied, codes.Unauthenticated, codes.InvalidArgument:
		return true // it answers, but to others
	}
	return false
}

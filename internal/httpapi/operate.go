package httpapi

import (
	"context"
	"log/slog"
	"net/http"

	"github.com/holdfast-lock/holdfast/internal/httpapi/apigen"
	"github.com/holdfast-lock/holdfast/internal/service"
)

// BreakOwnership implements DELETE /v1/mutexes/{mutex}/owner. What was broken,
// and why, is in the log event of the request.
func (s *server) BreakOwnership(ctx context.Context, req apigen.BreakOwnershipRequestObject) (apigen.BreakOwnershipResponseObject, error) {
	ev := eventOf(ctx)
	ctx = plain(ctx)
	name, err := service.ParseName("mutex", req.Mutex)
	if err != nil {
		return nil, err
	}
	ev.attrs = append(ev.attrs,
		slog.Int64("fencing_token", req.Params.FencingToken),
		slog.String("reason", req.Params.Reason))
	broken, err := s.svc.Break(ctx, service.BreakRequest{
		Mutex:  name,
		Fence:  service.Fence(req.Params.FencingToken),
		Reason: req.Params.Reason,
	})
	if err != nil {
		return nil, err
	}
	ev.attrs = append(ev.attrs, slog.String("broken_contender", string(broken.Contender)))
	return apigen.BreakOwnership200JSONResponse(pastOf(broken)), nil
}

// GetHealth implements GET /healthz.
func (s *server) GetHealth(context.Context, apigen.GetHealthRequestObject) (apigen.GetHealthResponseObject, error) {
	return apigen.GetHealth200JSONResponse{Status: apigen.HealthStatusOk}, nil
}

// GetReadiness implements GET /readyz.
func (s *server) GetReadiness(ctx context.Context, _ apigen.GetReadinessRequestObject) (apigen.GetReadinessResponseObject, error) {
	ctx = plain(ctx)
	if err := s.svc.Ready(ctx); err != nil {
		return nil, err
	}
	return apigen.GetReadiness200JSONResponse{Status: apigen.HealthStatusOk}, nil
}

// contractAnswer is the contract, byte for byte.
type contractAnswer []byte

// GetContract implements GET /openapi.json.
func (s *server) GetContract(context.Context, apigen.GetContractRequestObject) (apigen.GetContractResponseObject, error) {
	return contractAnswer(s.contract), nil
}

// VisitGetContractResponse writes the answer.
func (a contractAnswer) VisitGetContractResponse(w http.ResponseWriter) error {
	return deliver(w, http.StatusOK, a)
}

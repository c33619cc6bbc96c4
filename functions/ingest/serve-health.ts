import { Code, ConnectError, type ConnectRouter } from "@connectrpc/connect";
import {
  Health,
  HealthCheckResponse_ServingStatus as ServingStatus,
} from "../../proto/gen/grpc/health/v1/health_pb.js";
import { IngestService } from "../../proto/gen/svc/ingest/v1/ingest_pb.js";

const requestBytesMax = 4096;

/** Serves the health checks of gRPC for the server and for the ingest service. Clients do without `Watch`, which is unimplemented. */
export const serveHealth = (router: ConnectRouter, isHealthy: () => boolean): void => {
  const check = ({ service }: { service: string }) => {
    if (service !== "" && service !== IngestService.typeName)
      throw new ConnectError("unknown service", Code.NotFound);
    return { status: isHealthy() ? ServingStatus.SERVING : ServingStatus.NOT_SERVING };
  };
  router.service(Health, { check }, { readMaxBytes: requestBytesMax });
};

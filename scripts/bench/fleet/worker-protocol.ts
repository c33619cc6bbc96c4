import type { TakenFigures } from "./figures.ts";

/** The hosts of a worker. */
export interface WorkerFleet {
  /** Index of its first host, and how many it has. */
  first: number;
  count: number;
  identityPrefix: string;
  /** PEM of the authority of core's certificate. */
  ca: string;
  intervalMs: number;
  backoffCapMs: number;
  forwards: boolean;
  /** Hosts behind one address, as behind a NAT. */
  hostsPerAddress: number;
}

/** The state of a worker's hosts, with what they did since the last `take`. */
export interface WorkerState {
  figures: TakenFigures;
  connected: number;
  /** Hosts whose last heartbeat was accepted after the last `mark`. */
  accepted: number;
}

/** The commands of a worker, with their arguments. `take` returns a `WorkerState`, the others nothing. */
export interface WorkerCommands {
  open: WorkerFleet;
  /** Enrolls all hosts through the API at a port of loopback. */
  enroll: { apiPort: number; token: string; inFlight: number };
  /** Sets the ports of the ingest listeners; hosts take turns. Empty: the network is cut. */
  ports: readonly number[];
  /** Starts all hosts, spread over this time. */
  start: { spreadMs: number };
  /** Sends a heartbeat of each host whose index has this remainder, so many at once. */
  round: { remainder: number; modulus: number; inFlight: number };
  /** Closes all connections, as a cut network does. */
  cut: null;
  /** From now on `accepted` counts later heartbeats. */
  mark: null;
  /** Renews so many certificates a second, one host after the other; 0 stops. */
  renew: { perSecond: number };
  take: null;
}

/** A command on its way to a worker. */
export interface WorkerRequest {
  id: number;
  name: keyof WorkerCommands;
  argument: unknown;
}

/** The answer of a worker. */
export interface WorkerResponse {
  id: number;
  result?: unknown;
  error?: string;
}

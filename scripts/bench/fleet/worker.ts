/** A process that drives some thousand hosts; `startFleetWorkers` starts it and sends the commands of `WorkerCommands`. */
import { systemClock } from "../../../kit/clock.ts";
import { fraction, systemEntropy } from "../../../kit/entropy.ts";
import { runAll } from "../support/bench.ts";
import { createEnroller } from "./enroll.ts";
import { createFleetFigures } from "./figures.ts";
import { createFleetHost, type FleetHost } from "./host.ts";
import type {
  WorkerCommands,
  WorkerFleet,
  WorkerRequest,
  WorkerResponse,
  WorkerState,
} from "./worker-protocol.ts";

const figures = createFleetFigures();
const hosts: FleetHost[] = [];
const state: {
  fleet?: WorkerFleet;
  ports: readonly number[];
  markedAt: number;
  renewals?: NodeJS.Timeout;
} = {
  ports: [],
  markedAt: 0,
};

const fleetOf = (): WorkerFleet => {
  if (state.fleet === undefined) throw new Error("the worker has no hosts");
  return state.fleet;
};

/** Returns an address of loopback. Core limits the handshakes of each. */
const localAddressOf = (index: number): string => {
  const address = 1 + Math.floor(index / fleetOf().hostsPerAddress);
  return `127.${10 + (address >> 16)}.${(address >> 8) & 255}.${address & 255}`;
};

/** Attempts to connect at once: together more than core lets wait, and few enough for the clients' part of them to be computed in time. */
const attemptsMax = 200;

/** Creates a function that runs tasks, at most `atOnceMax` at a time, the others in their order. */
const createTurns = (atOnceMax: number) => {
  const waiting: (() => void)[] = [];
  let running = 0;
  return async (task: () => Promise<void>): Promise<void> => {
    if (running >= atOnceMax) await new Promise<void>((resolve) => waiting.push(resolve));
    running++;
    try {
      await task();
    } finally {
      running--;
      waiting.shift()?.();
    }
  };
};

const enroll = async (target: WorkerCommands["enroll"]): Promise<void> => {
  const { first, count, identityPrefix, ca, intervalMs, backoffCapMs, forwards } = fleetOf();
  const enroller = createEnroller(target);
  const context = {
    clock: systemClock,
    entropy: systemEntropy,
    figures,
    ca,
    intervalMs,
    backoffCapMs,
    forwards,
    localAddressOf,
    inTurn: createTurns(attemptsMax),
    portOf: (index: number) => state.ports[index % state.ports.length],
  };
  await runAll(count, target.inFlight, async (offset) => {
    const index = first + offset;
    const deviceId = `host-${index}`;
    const identity = `${identityPrefix}${deviceId}`;
    const startedAt = performance.now();
    const credentials = await enroller.enroll({ identity, deviceId });
    figures.took("enroll", performance.now() - startedAt);
    hosts.push(createFleetHost({ index, identity, credentials }, context));
  });
  enroller.close();
};

const renew = ({ perSecond }: { perSecond: number }): void => {
  clearInterval(state.renewals);
  if (perSecond === 0) return;
  let next = 0;
  const renewOne = () => void hosts[next++ % hosts.length]?.renew();
  state.renewals = setInterval(renewOne, 1000 / perSecond);
};

const commands: { [Name in keyof WorkerCommands]: (argument: WorkerCommands[Name]) => unknown } = {
  open: (fleet) => {
    state.fleet = fleet;
  },
  enroll,
  ports: (ports) => {
    state.ports = ports;
  },
  start: ({ spreadMs }) => {
    for (const host of hosts) {
      const connectMs = spreadMs * fraction(systemEntropy);
      host.start(connectMs, connectMs + fleetOf().intervalMs * fraction(systemEntropy));
    }
  },
  round: async ({ remainder, modulus, inFlight }) => {
    const chosen = hosts.filter(({ index }) => index % modulus === remainder);
    await runAll(chosen.length, inFlight, async (at) => chosen[at]?.heartbeat());
  },
  cut: () => {
    for (const host of hosts) host.cut();
  },
  mark: () => {
    state.markedAt = systemClock.monotonic();
  },
  renew,
  take: (): WorkerState => ({
    figures: figures.take(),
    connected: hosts.filter((host) => host.isConnected()).length,
    accepted: hosts.filter((host) => host.acceptedAt() >= state.markedAt).length,
  }),
};

const run = async ({ id, name, argument }: WorkerRequest): Promise<WorkerResponse> => {
  try {
    return { id, result: await (commands[name] as (argument: unknown) => unknown)(argument) };
  } catch (error) {
    return { id, error: error instanceof Error ? error.message : "unknown failure" };
  }
};

process.on("message", (message: WorkerRequest) => {
  void run(message).then((response) => process.send?.(response));
});
process.on("disconnect", () => process.exit());

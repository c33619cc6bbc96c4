import type { Random } from "#scripts/fleet-sim/scenario/random.ts";
import {
  type CorpusService,
  errors,
  frames,
  services,
  statements,
  userAgents,
} from "./vocabulary.ts";

/** A line of a log file, without its end. */
export interface CorpusLine {
  path: string;
  text: string;
  /** Milliseconds since the Unix epoch. */
  at: number;
}

const linesPerSecond = 500;

/**
 * Creates lines as the programs of a host write them, in five forms, each file for some lines at a time. A stack trace is many lines, and
 * some of its frames are in other traces too.
 */
export function* createLines(random: Random, startedAt: number): Generator<CorpusLine, never> {
  for (let written = 0; ; ) {
    const service = random.pick(services);
    for (let left = random.between(5, 60); left > 0; ) {
      const at = startedAt + Math.floor((written * 1000) / linesPerSecond) + random.between(0, 1);
      const texts = forms[service.form](random, service, at);
      for (const text of texts)
        yield { path: `/var/log/${service.name}/${service.name}.log`, text, at };
      written += texts.length;
      left -= texts.length;
    }
  }
}

type Form = (random: Random, service: CorpusService, at: number) => string[];

const iso = (at: number) => new Date(at).toISOString();
const months = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
const two = (value: number) => String(value).padStart(2, "0");
const address = (random: Random) =>
  `10.${random.between(0, 31)}.${random.between(0, 255)}.${random.between(1, 254)}`;
/** A path with an id in the place of each parameter. */
export const filledPath = (random: Random, route: string): string =>
  route.replace(/:\w+/g, () => String(random.between(1_000, 9_999_999)));
/** Milliseconds as services take them: mostly few, sometimes many. */
const millis = (random: Random) => (0.3 / (random.fraction() + 0.0004)).toFixed(3);
/** A message of an error with an id of its own. */
export const messageOf = (random: Random): readonly [type: string, message: string] => {
  const [type, message] = random.pick(errors);
  return [type, message.replace("#", String(random.between(1_000, 9_999_999)))];
};
const isError = (random: Random) => random.fraction() < 0.03;
const method = (random: Random) =>
  random.weighted([
    ["GET", 7],
    ["POST", 2],
    ["PUT", 1],
    ["DELETE", 1],
  ]);

const forms: Readonly<Record<CorpusService["form"], Form>> = {
  logfmt: (random, { routes }, at) => {
    const common = `time=${iso(at)} level=${isError(random) ? "error" : "info"} trace_id=${random.bytes(16).toHex()}`;
    const handled = () =>
      `msg="request handled" method=${method(random)} path=${filledPath(random, random.pick(routes))} status=${status(random)} duration_ms=${millis(random)} bytes=${random.between(40, 90_000)}`;
    const queried = () => {
      const [sql] = random.pick(statements);
      return `msg="slow query" rows=${random.between(0, 5_000)} duration_ms=${millis(random)} sql=${JSON.stringify(sql)}`;
    };
    return [`${common} ${random.fraction() < 0.85 ? handled() : queried()}`];
  },
  json: (random, { name, routes }, at) => {
    const ids = { trace_id: random.bytes(16).toHex(), span_id: random.bytes(8).toHex() };
    const common = { level: 30, time: iso(at), pid: 1, hostname: `${name}-6f9c7d`, ...ids };
    const [type, message] = messageOf(random);
    if (isError(random))
      return [
        JSON.stringify({ ...common, level: 50, err: { type, message }, msg: "request failed" }),
      ];
    const request = {
      method: method(random),
      url: filledPath(random, random.pick(routes)),
      user: random.between(1, 900_000),
    };
    return [
      JSON.stringify({
        ...common,
        ...request,
        status: status(random),
        ms: Number(millis(random)),
        msg: "request completed",
      }),
    ];
  },
  nginx: (random, { routes }, at) => {
    const date = new Date(at);
    const time = `${two(date.getUTCDate())}/${months[date.getUTCMonth()]}/${date.getUTCFullYear()}:${iso(at).slice(11, 19)} +0000`;
    const path = `${filledPath(random, random.pick(routes))}${random.fraction() < 0.3 ? `?page=${random.between(1, 400)}` : ""}`;
    return [
      `${address(random)} - - [${time}] "${method(random)} ${path} HTTP/1.1" ${status(random)} ${random.between(120, 200_000)} "https://shop.example.com/" "${random.pick(userAgents)}" ${millis(random)}`,
    ];
  },
  java: (random, { name, routes }, at) => {
    const thread = `http-nio-8080-exec-${random.between(1, 200)}`;
    const head = (level: string, logger: string) =>
      `${iso(at).replace("T", " ").replace("Z", "")} ${level.padEnd(5)} [${name},${random.bytes(16).toHex()},${random.bytes(8).toHex()}] ${thread} c.e.shop.${name}.${logger} : `;
    if (random.fraction() > 0.01) {
      const call = `${method(random)} ${filledPath(random, random.pick(routes))}`;
      return [
        `${head("INFO", "RequestLog")}${call} -> ${status(random)} in ${millis(random)} ms, customer ${random.between(1, 900_000)}`,
      ];
    }
    const [type, message] = messageOf(random);
    const frame = () => {
      const [file = "", call = ""] = random.pick(frames).split(".");
      return `\tat com.example.shop.${name}.${file}.${call}(${file}.java:${random.between(20, 900)}) ~[${name}.jar!/:na]`;
    };
    const trace = (depth: number) => Array.from({ length: depth }, frame);
    return [
      `${head("ERROR", "ErrorHandler")}request failed: ${message}`,
      `com.example.shop.${name}.${type}: ${message}`,
      ...trace(random.between(8, 18)),
      `Caused by: java.io.IOException: ${message}`,
      ...trace(random.between(2, 5)),
      `\t... ${random.between(20, 70)} more`,
    ];
  },
  syslog: (random, _, at) => {
    const date = new Date(at);
    const head = `${months[date.getUTCMonth()]} ${String(date.getUTCDate()).padStart(2)} ${iso(at).slice(11, 19)} web-${two(7)} `;
    const from = `${address(random)} port ${random.between(1_024, 65_535)}`;
    const texts = [
      () =>
        `sshd[${random.between(300, 99_999)}]: Failed password for invalid user ${random.pick(["admin", "test", "oracle", "git"])} from ${from} ssh2`,
      () =>
        `sshd[${random.between(300, 99_999)}]: Accepted publickey for deploy from ${from} ssh2: ED25519 SHA256:${random.bytes(32).toBase64()}`,
      () =>
        `systemd[1]: run-docker-runtime\\x2drunc-moby-${random.bytes(16).toHex()}-runc.mount: Deactivated successfully.`,
      () =>
        `kernel: [${random.between(1_000, 9_999_999)}.${random.between(100_000, 999_999)}] TCP: request_sock_TCP: Possible SYN flooding on ${address(random)}:443. Sending cookies.`,
    ] as const;
    return [head + random.pick(texts)()];
  },
};

/** The status of a response. */
export const status = (random: Random): number =>
  random.weighted([
    [200, 80],
    [201, 6],
    [304, 5],
    [404, 5],
    [400, 2],
    [500, 1],
    [503, 1],
  ]);

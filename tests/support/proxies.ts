import { spawnSync } from "node:child_process";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { systemEntropy } from "#kit/entropy.ts";
import type { LabPki } from "#scripts/lab/ca/pki.ts";
import { findPorts } from "#scripts/ports.ts";
import { startListening } from "./listening-program.ts";

/** Proxies whose documented configuration is tested. */
export type ProxyName = keyof typeof documented;

/** A proxy in front of a core. */
export type RunningProxy = Awaited<ReturnType<typeof startProxy>>;

/** The paths and ports of a test, which replace those of the documented configuration. */
interface Places {
  dir: string;
  pki: LabPki;
  httpsPort: number;
  ingestProxyPort: number;
  corePort: number;
  ingestPort: number;
  /** Of web; only nginx's configuration has one. */
  webPort?: number;
}

const shared = ({ pki, corePort, ingestPort }: Places) => ({
  "127.0.0.1:8080": `127.0.0.1:${corePort}`,
  "127.0.0.1:8444": `127.0.0.1:${ingestPort}`,
  "/etc/svc/edge.crt": pki.edge.certFile,
  "/etc/svc/enrollment-ca.crt": pki.enrollmentCa.certFile,
});

const documented = {
  nginx: {
    file: "docs/deploy/nginx.conf",
    program: "nginx",
    args: (config: string) => ["-c", config, "-g", "daemon off;"],
    places: (at: Places) => ({
      ...shared(at),
      "127.0.0.1:3000": `127.0.0.1:${at.webPort ?? 1}`,
      "listen 443 ssl": `listen 127.0.0.1:${at.httpsPort} ssl`,
      "listen 8443": `listen 127.0.0.1:${at.ingestProxyPort}`,
      "/etc/svc/edge.key": at.pki.edge.keyFile,
      "/run/nginx.pid": join(at.dir, "nginx.pid"),
      "/var/log/nginx/error.log": join(at.dir, "error.log"),
      "/var/log/nginx/access.log": join(at.dir, "access.log"),
    }),
  },
  haproxy: {
    file: "docs/deploy/haproxy.cfg",
    program: "haproxy",
    args: (config: string) => ["-db", "-f", config],
    places: (at: Places) => ({
      ...shared(at),
      "bind :443": `bind 127.0.0.1:${at.httpsPort}`,
      "bind :8443": `bind 127.0.0.1:${at.ingestProxyPort}`,
    }),
  },
} as const;

/** Reports whether the proxy is installed, as it comes from the distribution only. */
export const isInstalled = (name: ProxyName) =>
  spawnSync(documented[name].program, ["-v"], { stdio: "ignore", timeout: 60_000 }).status === 0;

/**
 * Starts the proxy in front of a core, with its documented configuration in which ports and paths are replaced. Throws if the document
 * lacks one of them. Its files go to `dir`; `pki` has the certificate of the edge.
 */
export const startProxy = async (
  name: ProxyName,
  options: Pick<Places, "dir" | "pki" | "corePort" | "ingestPort" | "webPort">,
) => {
  const { file, program, args, places } = documented[name];
  const [httpsPort, ingestProxyPort] = (await findPorts(2, systemEntropy)) as [number, number];
  let text = await readFile(new URL(`../../${file}`, import.meta.url), "utf8");
  const replaced = new Map(Object.entries(places({ ...options, httpsPort, ingestProxyPort })));
  for (const from of replaced.keys())
    if (!text.includes(from)) throw new Error(`${file} does not contain ${from}`);
  // All at once: a port that was put in may begin like another that is replaced.
  const anyOf = [...replaced.keys()].map((from) => RegExp.escape(from)).join("|");
  text = text.replaceAll(new RegExp(anyOf, "g"), (from) => replaced.get(from) ?? from);
  const config = join(options.dir, `${name}-${httpsPort}.conf`);
  await writeFile(config, text);
  const ports = [httpsPort, ingestProxyPort];
  const stop = await startListening({ program, args: args(config), ports });
  return {
    /** `https://localhost:<port>`. */
    url: `https://localhost:${httpsPort}`,
    /** `localhost:<port>`, forwarded to core's ingest listener. */
    ingestEndpoint: `localhost:${ingestProxyPort}`,
    stop,
  };
};

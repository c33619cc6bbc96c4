/* The lines of a container's log: those of CRI, `time stream P|F text`, and those of Docker's json-file. */
import * as v from "valibot";

const label = "[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?";
const logPath = new RegExp(
  `/(${label})_(${label}(?:\\.${label})*)_([0-9A-Za-z-]{1,64})/(${label})/(\\d{1,9})\\.log$`,
);

/** Returns whose log a path is, by the names that the kubelet gives; nothing for any other path. */
export const containerOf = (path: string): Record<string, string> => {
  const [, namespace, pod, uid, container, restarts] = logPath.exec(path) ?? [];
  if (!namespace || !pod || !uid || !container || !restarts || pod.length > 253) return {};
  return {
    "k8s.namespace.name": namespace,
    "k8s.pod.name": pod,
    "k8s.pod.uid": uid,
    "k8s.container.name": container,
    "k8s.container.restart_count": `${Number(restarts)}`,
  };
};

/** A line as the runtime wrote it. `stream` is empty for one that is in neither format. */
interface RuntimeLine {
  readonly stream: string;
  readonly time?: string;
  readonly text: Buffer;
  readonly isPiece: boolean;
}

const time = String.raw`\d{4}-\d\d-\d\dT[\d:.]{8,20}(?:Z|[+-]\d\d:\d\d)`;
const criPrefix = new RegExp(`^(${time}) (stdout|stderr) ([FP])(?::[^ ]{0,40})?(?: |$)`);
const criPrefixBytesMax = 128;
const dockerTime = new RegExp(`^${time}$`);
const carriageReturn = 0x0d;
const openBrace = 0x7b;

const parseCriLine = (chunk: Buffer, start: number, end: number): RuntimeLine | undefined => {
  const prefix = chunk.toString("latin1", start, Math.min(end, start + criPrefixBytesMax));
  const [matched, writtenAt = "", stream = "", tag] = criPrefix.exec(prefix) ?? [];
  if (matched === undefined) return undefined;
  const isPiece = tag === "P";
  // Within a text it is no line end.
  const to = isPiece && chunk[end] === carriageReturn ? end + 1 : end;
  return { stream, time: writtenAt, text: chunk.subarray(start + matched.length, to), isPiece };
};

const DockerLine = v.pipe(
  v.string(),
  v.parseJson(),
  v.object({
    log: v.string(),
    stream: v.picklist(["stdout", "stderr"]),
    time: v.pipe(v.string(), v.regex(dockerTime)),
  }),
);

const parseDockerLine = (chunk: Buffer, start: number, end: number): RuntimeLine | undefined => {
  const parsed = v.safeParse(DockerLine, chunk.toString("utf8", start, end));
  if (!parsed.success) return undefined;
  const { log, ...rest } = parsed.output;
  const text = Buffer.from(log.replace(/\r?\n$/, ""));
  return { ...rest, text, isPiece: !log.endsWith("\n") };
};

/** Parses a line, by its first byte: Docker's is a JSON object. */
export const parseContainerLine = (chunk: Buffer, start: number, end: number): RuntimeLine =>
  (chunk[start] === openBrace ? parseDockerLine : parseCriLine)(chunk, start, end) ?? {
    stream: "",
    text: chunk.subarray(start, end),
    isPiece: false,
  };

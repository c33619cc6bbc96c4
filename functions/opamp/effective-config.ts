import type { EffectiveConfig } from "#proto/gen/opamp/v1/opamp_pb.js";

/** The most characters of an effective config that core keeps. */
const charactersMax = 256 * 1024;

const secretKey =
  "[\\w./-]*(?:passw|passphrase|secret|token|credential|authorization|api[-_]?key|private[-_]?key)[\\w./-]*";
/** A line that gives a key of a secret, with its indentation. */
const secretLine = new RegExp(`^(\\s*(?:- )?["']?${secretKey}["']?:)(?=\\s|$)`, "i");
/** The same within braces. */
const secretInBraces = new RegExp(`([{,]\\s*["']?${secretKey}["']?:\\s*)[^,}]+`, "gi");
const userinfo = /:\/\/[^\s/@]+@/g;

/** Returns the text of an effective config without secrets, as far as their keys tell them: it is shown and never used. */
export const effectiveConfigText = ({ configMap }: EffectiveConfig): string => {
  const files = Object.entries(configMap?.configMap ?? {});
  const texts = files.map(([name, { body }]) => {
    const text = new TextDecoder().decode(body.subarray(0, charactersMax));
    return files.length > 1 ? `# ${name}\n${text}` : text;
  });
  return withoutSecrets(texts.join("\n").replaceAll("\0", "")).slice(0, charactersMax);
};

const indentationOf = (line: string): number => line.search(/\S|$/);

const withoutSecrets = (text: string): string => {
  const kept: string[] = [];
  /** The lines that belong to the value of a secret are indented more than its key. */
  let secretIndentation = Number.POSITIVE_INFINITY;
  for (const line of text.split("\n")) {
    if (line.trim() !== "" && indentationOf(line) > secretIndentation) continue;
    secretIndentation = Number.POSITIVE_INFINITY;
    const key = secretLine.exec(line)?.[1];
    if (key === undefined)
      kept.push(line.replace(secretInBraces, "$1[redacted]").replace(userinfo, "://[redacted]@"));
    else {
      kept.push(`${key} "[redacted]"`);
      secretIndentation = indentationOf(line);
    }
  }
  return kept.join("\n");
};

import type { FleetClient } from "#client/connect.ts";
import { type PreviewRolloutResponse, previewRollout } from "#client/index.ts";
import { connect } from "../terminal/connect.ts";
import { type AdminExitCode, exitCodes } from "../terminal/exit-codes.ts";
import { firstNames, plainLines, printRecord, withoutControls } from "../terminal/output.ts";
import type { Terminal } from "../terminal/terminal.ts";
import type { Action } from "./command.ts";
import { checkSelection, fleetQueryOf } from "./fleet.ts";
import { resolveId } from "./names.ts";

/** The preview of a rollout, as core reports it. */
type Preview = PreviewRolloutResponse;

/** Returns core's preview of a rollout of a config to the hosts of a query. Throws for an invalid query, with the position of the fault. */
export const previewOf = async (
  terminal: Pick<Terminal, "clock">,
  client: FleetClient,
  { configId, words }: { configId: string; words: readonly string[] },
): Promise<Preview> => {
  fleetQueryOf(words, new Date(terminal.clock.now()));
  const query = { filter: words.join(" ") };
  const { data } = await previewRollout<true>({
    client,
    path: { id: configId },
    query,
    throwOnError: true,
  });
  return data;
};

/** `svc-admin configs preview`: prints the hosts, their configs, what would change, and what prevents it. Exits with 1 if nothing can change. */
export const previewConfigAction: Action<{ all?: boolean }> = async (
  terminal,
  options,
  config = "",
  ...words
) => {
  if (options.all === true) checkSelection(terminal, words, options);
  const client = connect(terminal, options);
  const preview = await previewOf(terminal, client, {
    configId: await resolveId(client, "config", config),
    words,
  });
  if (options.format === "table") {
    terminal.out.write(`${describePreview(preview)}\n`);
    for (const { config, diff } of preview.from)
      if (config !== null && diff !== null) terminal.out.write(`\n${shownDiff(diff)}\n`);
  } else await printRecord(terminal, options, preview);
  return exitCodeOf(preview);
};

const exitCodeOf = ({ will_change, in_other_rollouts }: Preview): AdminExitCode =>
  will_change === 0 || in_other_rollouts.length > 0 ? exitCodes.refused : exitCodes.ok;

/** Returns a diff without the line above its header and without control characters. */
const shownDiff = (diff: string) => plainLines(diff.replace(/^=+\n/, "")).trimEnd();

/** Describes a preview, a line for each fact. */
export const describePreview = (preview: Preview): string => {
  const { config, hosts, will_change: changing, unchanged, skipped } = preview;
  // The hash ignores comments and formatting.
  const isEqual = (from: Preview["from"][number]["config"]) =>
    from?.config_hash === config.config_hash;
  const equal = preview.from.reduce(
    (sum, { config: from, hosts: count }) => sum + (isEqual(from) ? count : 0),
    0,
  );
  const refused = firstNames(
    preview.refused.map(({ identity, reason }) => `${identity} (${reason})`),
    skipped,
  );
  return [
    `Config ${shownConfig(config)} for ${hosts} ${hosts === 1 ? "host" : "hosts"}: ${changeOf(changing, equal)}`,
    ...preview.from.map(
      ({ config: from, hosts: count, rules }) =>
        `  ${count} from ${from ? shownConfig(from) : "no config"}${isEqual(from) ? ": only comments or formatting differ" : ""}${(rules ?? []).map(({ rule, change }) => `, rule ${rule} ${change}`).join("")}`,
    ),
    ...(unchanged === 0 ? [] : [`  ${unchanged} ${unchanged === 1 ? "has" : "have"} it already`]),
    ...(skipped === 0 ? [] : [`  ${skipped} ${areOf(skipped)} skipped: ${refused}`]),
    ...preview.unparsable.map(
      ({ version, hosts: count, errors }) =>
        `  ${count} ${count === 1 ? "runs" : "run"} version ${version}, which rejects it: ${errors.join("; ")}`,
    ),
    ...preview.in_other_rollouts.map(
      ({ rollout_id, hosts: count }) => `  ${count} ${areOf(count)} in the rollout ${rollout_id}`,
    ),
  ]
    .map(withoutControls)
    .join("\n");
};

const changeOf = (changing: number, equal: number) => {
  if (changing === 0) return "nothing would change";
  if (changing === equal) return "only comments or formatting change, nothing that collectors read";
  return `${changing - equal} would change`;
};

const areOf = (count: number) => (count === 1 ? "is" : "are");

const shownConfig = ({ name, config_hash: hash }: Preview["config"]) =>
  `${hash.slice(0, 12)}${name === null ? "" : ` (${name})`}`;

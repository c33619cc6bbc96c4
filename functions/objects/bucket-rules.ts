import { markerName } from "./claim-store.ts";
import { ObjectStoreUnavailable, telemetryPrefix } from "./object-store.ts";
import type { createS3Caller } from "./s3-calls.ts";
import { versionsHazard } from "./s3-store.ts";

/** The effects that the settings of a bucket have on objects, as sentences. */
interface BucketRules {
  /** Core would lose telemetry, or not start. */
  faults: string[];
  warnings: string[];
}

/** The objects that rules are judged for. */
interface RuledObjects {
  /** Empty, or ends with `/`. */
  prefix: string;
  /** Core deletes objects after so many days; infinite: never. */
  keptDays: number;
}

/** A setting of a bucket, which is a subresource of it. */
interface Setting {
  name: string;
  /** The element of its document. */
  root: string;
  /** The error of a bucket without it. */
  absent: string;
  right: string;
  judge(xml: string, rules: BucketRules, objects: RuledObjects): void;
}

const settings: readonly Setting[] = [
  {
    name: "versioning",
    root: "VersioningConfiguration",
    absent: "",
    right: "s3:GetBucketVersioning",
    judge(xml, { warnings }) {
      if (xml.includes("<Status>Enabled<")) warnings.push(versionsHazard);
    },
  },
  {
    name: "object-lock",
    root: "ObjectLockConfiguration",
    absent: "ObjectLockConfigurationNotFoundError",
    right: "s3:GetBucketObjectLockConfiguration",
    judge(xml, { warnings }) {
      const retention = elementOf(xml, "DefaultRetention");
      if (retention === undefined) return;
      const [mode, days, years] = ["Mode", "Days", "Years"].map((of) => elementOf(retention, of));
      const period = days === undefined ? `${years} years` : `${days} days`;
      warnings.push(
        `the bucket locks objects for ${period} (${mode}): until then, what core deletes still uses space, or its deletion is refused`,
      );
    },
  },
  {
    name: "lifecycle",
    root: "LifecycleConfiguration",
    absent: "NoSuchLifecycleConfiguration",
    right: "s3:GetLifecycleConfiguration",
    judge(xml, rules, objects) {
      for (const rule of elementsOf(xml, "Rule")) judgeRule(rule, rules, objects);
    },
  },
];

/** Reads the versioning, the object lock and the lifecycle rules of a bucket. A setting that cannot be read is a warning. */
export const readBucketRules = async (
  call: ReturnType<typeof createS3Caller>,
  objects: RuledObjects,
): Promise<BucketRules> => {
  const rules: BucketRules = { faults: [], warnings: [] };
  const documents = await Promise.all(settings.map((setting) => readSetting(call, setting)));
  for (const [index, { name, judge }] of settings.entries()) {
    const { xml, unread } = documents[index] ?? {};
    if (xml !== undefined) judge(xml, rules, objects);
    if (unread !== undefined)
      rules.warnings.push(`core could not check the bucket's ${name}: ${unread}`);
  }
  return rules;
};

/** Returns the document of a setting, or why it cannot be read; neither without the setting. */
const readSetting = async (
  call: ReturnType<typeof createS3Caller>,
  { name, root, absent, right }: Setting,
): Promise<{ xml?: string; unread?: string }> => {
  const expects = [absent, "NotImplemented"];
  try {
    const { error, bytes } = await call({ method: "GET", key: "", query: { [name]: "" }, expects });
    const xml = new TextDecoder().decode(bytes);
    if (error === "NotImplemented") return { unread: "its server does not know that" };
    if (error !== "") return {};
    // A server that does not know the setting may list objects instead.
    return xml.includes(`<${root}`) ? { xml } : { unread: "its server returns something else" };
  } catch (cause) {
    if (!(cause instanceof ObjectStoreUnavailable)) throw cause;
    return { unread: `${cause.message} (the right ${right} helps)` };
  }
};

/** The storage classes whose objects cannot be read. */
const archives = ["GLACIER", "DEEP_ARCHIVE"];

const judgeRule = (
  rule: string,
  { faults, warnings }: BucketRules,
  { prefix, keptDays }: RuledObjects,
): void => {
  // Core's objects have no tags.
  if (rule.includes("<Status>Disabled<") || rule.includes("<Tag>")) return;
  const name = `the lifecycle rule "${elementOf(rule, "ID") ?? ""}"`;
  if (rule.includes("<Action>"))
    warnings.push(`core does not know the form of ${name}: it must neither delete nor move`);
  const ruled = elementOf(rule, "Prefix") ?? "";
  const telemetry = prefix + telemetryPrefix;
  const coversTelemetry = telemetry.startsWith(ruled) || ruled.startsWith(telemetry);
  const isEarly = (action: ActionTime | undefined) =>
    coversTelemetry && action !== undefined && action.days <= keptDays;
  const early = `before SVC_INGEST_RETENTION_DAYS have passed`;
  const expiration = timeOf(elementOf(rule, "Expiration"));
  if (isEarly(expiration))
    faults.push(`${name} deletes objects ${expiration?.text}, ${early}: telemetry is lost`);
  else if (expiration && (prefix + markerName).startsWith(ruled))
    faults.push(
      `${name} deletes ${markerName} ${expiration.text}: core then does not start; limit it to ${telemetry}`,
    );
  for (const transition of elementsOf(rule, "Transition")) {
    const moves = timeOf(transition);
    if (!isEarly(moves)) continue;
    const storage = elementOf(transition, "StorageClass") ?? "";
    const moved = `${name} moves objects to ${storage} ${moves?.text}, ${early}`;
    if (archives.includes(storage)) faults.push(`${moved}: core cannot read them there`);
    else warnings.push(`${moved}: reading and deleting them may cost more`);
  }
};

/** When an action of a rule takes place. */
interface ActionTime {
  /** After the object was written; 0 for a date, which has passed for all that are written later. */
  days: number;
  text: string;
}

const timeOf = (action: string | undefined): ActionTime | undefined => {
  const [days, date] = ["Days", "Date"].map((name) => action && elementOf(action, name));
  if (days)
    return { days: Number(days), text: days === "1" ? "after a day" : `after ${days} days` };
  return date ? { days: 0, text: `from ${date} on` } : undefined;
};

/** Returns what is in each element of a name, if none of them is in another one. */
const elementsOf = (xml: string, name: string): string[] =>
  xml
    .split(`<${name}>`)
    .slice(1)
    .map((rest) => rest.split(`</${name}>`, 1).join());

const elementOf = (xml: string, name: string) => elementsOf(xml, name)[0];

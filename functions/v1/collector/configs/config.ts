import * as v from "valibot";
import { Id, IsoTimestamp } from "../../../../proto/values.ts";
import type { ListedConfig } from "../../../store/configs.ts";

const view = {
  id: Id,
  name: v.nullable(v.string()),
  config_hash: v.string(),
  size_bytes: v.number(),
  created_at: IsoTimestamp,
  created_by: v.string(),
};

/** A published config without its text. */
export const ConfigView = v.strictObject(view);

/** A published config with its text. */
export const ConfigWithTextView = v.strictObject({ ...view, yaml: v.string() });

/** Returns the view of a row. */
export const configView = (row: ListedConfig): v.InferOutput<typeof ConfigView> => ({
  id: row.id,
  name: row.name,
  config_hash: row.configHash,
  size_bytes: row.sizeBytes,
  created_at: row.createdAt.toISOString(),
  created_by: row.createdBy,
});

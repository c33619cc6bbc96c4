import type { Core } from "../../core.ts";
import { type ExportLag, findExportLags } from "../../store/export-lag.ts";

/** Returns how far each export is behind; none where nothing was ever exported (docs/export.md). */
export const reportExportLags = ({ db }: Pick<Core, "db">): Promise<ExportLag[]> => findExportLags(db);

import { readTheme, showTheme } from "./theme.ts";

// Runs in the head, before the first paint.
showTheme(readTheme());

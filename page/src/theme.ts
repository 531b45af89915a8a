// A script of its own in the head of the page: the theme is known before anything is drawn.
import { applyTheme } from "./ui/theme.ts";

applyTheme();

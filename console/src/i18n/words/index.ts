import { shell } from "./shell";
import { studio } from "./studio";
import { values } from "./values";
import { wallet } from "./wallet";
import { team } from "./team";
import { developers } from "./developers";
import { ops } from "./ops";
import { jobs } from "./jobs";
import { text } from "./text";
import { margins } from "./margins";

/** Text in English and Chinese, by area. A key is unique over all areas; a test checks it. */
export const WORDS = { ...shell, ...studio, ...values, ...wallet, ...team, ...developers, ...ops, ...jobs, ...text, ...margins } as const;
export type Word = keyof typeof WORDS;

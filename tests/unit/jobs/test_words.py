"""Cron expressions in words."""

from __future__ import annotations

import pytest

from artiway.jobs.cron import parse
from artiway.jobs.words import describe

TABLE = [
    ("* * * * *", "Every minute", "每分钟"),
    ("*/5 * * * *", "Every 5 minutes", "每 5 分钟"),
    ("0 */5 * * * ?", "Every 5 minutes", "每 5 分钟"),
    ("* * * * * ?", "Every second", "每秒"),
    ("*/10 * * * * ?", "Every 10 seconds", "每 10 秒"),
    ("5 * * * * ?", "At second 5 of every minute", "每分钟的第 5 秒"),
    (
        "30 */10 * * * ?",
        "At second 30, in minutes 0, 10, 20, 30, 40 and 50",
        "每小时的第 0、10、20、30、40、50 分的第 30 秒",
    ),
    (
        "*/10 */5 9-17 * * ?",
        "Every 10 seconds, in minutes 0 to 59 in steps of 5, from 09:00 to 17:59",
        "09:00 至 17:59 之间，第 0 至 59（步长 5） 分内，每 10 秒",
    ),
    ("0 * * * *", "Every hour", "每小时"),
    ("15 * * * *", "At minute 15 of every hour", "每小时的第 15 分"),
    ("0,30 * * * *", "At minutes 0 and 30 of every hour", "每小时的第 0、30 分"),
    (
        "*/7 * * * *",
        "At minutes 0, 7, 14, 21, 28, 35, 42, 49 and 56 of every hour",
        "每小时的第 0、7、14、21、28、35、42、49、56 分",
    ),
    ("0 */2 * * *", "Every 2 hours", "每 2 小时"),
    ("15 */2 * * *", "At minute 15, every 2 hours", "每 2 小时的第 15 分"),
    ("*/10 9-17 * * *", "Every 10 minutes, from 09:00 to 17:59", "09:00 至 17:59 之间，每 10 分钟"),
    (
        "*/15 9-17 * * 1-5",
        "Every 15 minutes, from 09:00 to 17:59, on Monday to Friday",
        "周一至周五 09:00 至 17:59 之间，每 15 分钟",
    ),
    ("0 9-17 * * MON-FRI", "Every hour from 09:00 to 17:00, on Monday to Friday", "周一至周五 09:00 至 17:00 每小时"),
    ("30 2 * * *", "At 02:30, every day", "每天 02:30"),
    ("0 9,18 * * *", "At 09:00 and 18:00, every day", "每天 09:00、18:00"),
    ("0 9 * * 1-5", "At 09:00, on Monday to Friday", "周一至周五 09:00"),
    ("0 9 * * FRI-MON", "At 09:00, on Friday to Monday", "周五至周一 09:00"),
    ("0 0 1 * *", "At 00:00, on day 1 of the month", "每月 1 日 00:00"),
    ("0 0 1,15 * *", "At 00:00, on days 1 and 15 of the month", "每月 1、15 日 00:00"),
    ("0 0 L * *", "At 00:00, on the last day of the month", "每月最后一天 00:00"),
    ("0 0 1,L * *", "At 00:00, on day 1 and the last day of the month", "每月 1 日、最后一天 00:00"),
    ("0 0 0 L-3 * ?", "At 00:00, 3 days before the last day of the month", "每月倒数第 4 天 00:00"),
    ("0 0 1 1 *", "At 00:00, on day 1 of January", "1 月的 1 日 00:00"),
    ("0 0 1 1,7 *", "At 00:00, on day 1 of January and July", "1、7 月的 1 日 00:00"),
    ("0 0 13 * 5", "At 00:00, on day 13 of the month or on Friday", "每月 13 日或周五 00:00"),
    (
        "0 0 13 6 5#2",
        "At 00:00, on day 13 of June or on the second Friday of June",
        "6 月的 13 日或该月第二个周五 00:00",
    ),
    (
        "0 0 */2 * MON",
        "At 00:00, on days 1 to 31 in steps of 2 of the month, only on Monday",
        "每月 1 至 31（步长 2） 日且为周一时 00:00",
    ),
    ("0 0 * 1-3 *", "At 00:00, every day, in January to March", "1 至 3 月的每天 00:00"),
    ("0 0 * * 5L", "At 00:00, on the last Friday of the month", "每月最后一个周五 00:00"),
    ("0 0 0 ? * 6#3", "At 00:00, on the third Friday of the month", "每月第三个周五 00:00"),
    (
        "0 0 12 ? * 6L 2026-2030",
        "At 12:00, on the last Friday of the month, in 2026 to 2030",
        "2026 至 2030 年，每月最后一个周五 12:00",
    ),
    ("0 0 12 1 1 ? 2027", "At 12:00, on day 1 of January, in 2027", "2027 年，1 月的 1 日 12:00"),
    (
        "0 10-44/2 14 ? 3 WED",
        "At minutes 10 to 44 in steps of 2, in hour 14, on Wednesday, in March",
        "3 月的周三 14 点内，第 10 至 44（步长 2） 分",
    ),
    ("0 0/5 14,18 * * ?", "Every 5 minutes, in hours 14 and 18", "14、18 点内，每 5 分钟"),
    ("0 0-5 14 * * ?", "At minutes 0 to 5, in hour 14", "14 点内，第 0 至 5 分"),
    ("10,20,30 15 10 * * ?", "At 10:15:10, 10:15:20 and 10:15:30, every day", "每天 10:15:10、10:15:20、10:15:30"),
    (
        "15 10 15-20/2 * 0",
        "At 10:15, on days 15, 17 and 19 of the month or on Sunday",
        "每月 15、17、19 日或周日 10:15",
    ),
    ("0 0 * * 0-6/2", "At 00:00, on Sunday, Tuesday, Thursday and Saturday", "周日、周二、周四、周六 00:00"),
    ("5 0/3 * * *", "At minute 5, every 3 hours", "每 3 小时的第 5 分"),
    (
        "*/20 1-5,8 * 2 *",
        "Every 20 minutes, in hours 1 to 5 and 8, in February",
        "2 月的每天，1 至 5、8 点内，每 20 分钟",
    ),
    ("0 0 0 ? 6 2L", "At 00:00, on the last Monday of June", "6 月的最后一个周一 00:00"),
    (
        "0 1,2,3,4,5,6,7,8 1 * *",
        "At minute 0, in hours 1, 2, 3, 4, 5, 6, 7 and 8, on day 1 of the month",
        "每月 1 日 1、2、3、4、5、6、7、8 点内，第 0 分",
    ),
    ("0 0 L-1 2 *", "At 00:00, 1 day before the last day of February", "2 月的倒数第 2 天 00:00"),
    ("0 30 8 ? * SAT,SUN", "At 08:30, on Saturday and Sunday", "周六、周日 08:30"),
    ("0 0 22-2 * * ?", "Every hour from 22:00 to 02:00", "22:00 至 02:00 每小时"),
    ("0 0 * 2 1#5", "At 00:00, on the fifth Monday of February", "2 月的第五个周一 00:00"),
    ("0 0 0 1 */3 ?", "At 00:00, on day 1 of January, April, July and October", "1、4、7、10 月的 1 日 00:00"),
]


@pytest.mark.parametrize(("expr", "english", "chinese"), TABLE)
def test_expression_is_described_in_both_languages(expr, english, chinese):
    assert describe(parse(expr), "Asia/Shanghai", "en") == f"{english} (Asia/Shanghai)"
    assert describe(parse(expr), "Asia/Shanghai", "zh") == f"{chinese}（Asia/Shanghai）"

"""The application of the example deployments: replace it with yours."""

from rota import Context, Rota, cron

app = Rota()


@app.task(queue="mail", max_attempts=5)
async def send_welcome(ctx: Context, user_id: int) -> None:
    """Welcomes somebody."""
    ctx.log.info("welcome", user_id=user_id)


@app.task(schedule=cron("0 6 * * *", tz="Europe/Berlin"))
async def digest() -> None:
    """What happened yesterday."""
